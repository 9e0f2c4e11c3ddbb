"""ROUGE F-measures by rouge_score, Porter stemmer on, best over references."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize

from skipmap.calibration.items import Item
from skipmap.metrics.base import Stats
from skipmap.metrics.trivial import copy_baseline
from skipmap.metrics.usable import references_of


class _Stemmer:
    # Texts repeat the same words over and over, and stemming is most of the time of a short answer's score.
    def __init__(self) -> None:
        self.stem = lru_cache(maxsize=1 << 16)(PorterStemmer().stem)


class _Tokenizer:
    def __init__(self) -> None:
        self._stemmer = _Stemmer()

    def tokenize(self, text: str) -> list[str]:
        tokens: list[str] = tokenize(text, self._stemmer)
        return tokens


_TOKENIZER = _Tokenizer()


class _Rouge:
    name: ClassVar[str]
    needs: ClassVar[str] = "reference"

    def __init__(self) -> None:
        self._scorer = RougeScorer([self.name], tokenizer=_TOKENIZER)
        self._signature = (
            f"{self.name}|f-measure|stemmer:porter|refs:best|rouge_score:{version('rouge_score')}"
        )

    @property
    def signature(self) -> str:
        """Variant, options and library version."""
        return self._signature

    def stats(self, text: str, item: Item) -> Stats:
        """F-measure against the best reference."""
        best = self._scorer.score_multi(references_of(item), text)[self.name]
        return (float(best.fmeasure),)

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        """Mean F-measure."""
        return float(total[0]) / n if n else 0.0

    def baseline(self, items: Sequence[Item]) -> float:
        """ROUGE of the better of the empty answer and the prompt's first sentence."""
        return copy_baseline(self, items)


class Rouge1(_Rouge):
    """F-measure of shared words."""

    name: ClassVar[str] = "rouge1"


class Rouge2(_Rouge):
    """F-measure of shared word pairs."""

    name: ClassVar[str] = "rouge2"


class RougeL(_Rouge):
    """F-measure of the longest common subsequence of words."""

    name: ClassVar[str] = "rougeL"
