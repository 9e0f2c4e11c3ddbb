"""Token F1 and exact match of short answers, with the text normalisation of SQuAD."""

from __future__ import annotations

import re
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from skipmap.calibration.items import Item
from skipmap.metrics.base import Stats
from skipmap.metrics.trivial import copy_baseline
from skipmap.metrics.usable import references_of

_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


@lru_cache(maxsize=4096)
def normalised_tokens(text: str) -> tuple[str, ...]:
    """Words of a text in lower case, without ASCII punctuation and English articles."""
    return tuple(_ARTICLE.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


class _BestOverReferences(ABC):
    name: ClassVar[str]
    needs: ClassVar[str] = "reference"

    @property
    def signature(self) -> str:
        """Rule and options; the figure depends on no library."""
        return f"{self.name}|norm:squad|refs:best|v:1"

    def stats(self, text: str, item: Item) -> Stats:
        """Score against the best reference."""
        answer = normalised_tokens(text)
        return (max(self._score(answer, normalised_tokens(reference)) for reference in references_of(item)),)

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        """Mean score."""
        return float(total[0]) / n if n else 0.0

    def baseline(self, items: Sequence[Item]) -> float:
        """Score of the better of the empty answer and the prompt's first sentence."""
        return copy_baseline(self, items)

    @staticmethod
    @abstractmethod
    def _score(answer: tuple[str, ...], reference: tuple[str, ...]) -> float: ...


class TokenF1(_BestOverReferences):
    """Harmonic mean of word precision and recall."""

    name: ClassVar[str] = "f1"

    @staticmethod
    def _score(answer: tuple[str, ...], reference: tuple[str, ...]) -> float:
        if not answer or not reference:
            return float(answer == reference)
        shared = sum((Counter(answer) & Counter(reference)).values())
        return 2.0 * shared / (len(answer) + len(reference))


class ExactMatch(_BestOverReferences):
    """1 for an answer equal to a reference after normalisation, else 0."""

    name: ClassVar[str] = "exact_match"

    @staticmethod
    def _score(answer: tuple[str, ...], reference: tuple[str, ...]) -> float:
        return float(answer == reference)
