"""Corpus BLEU by sacrebleu, kept as per-prompt statistics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from skipmap.calibration.items import Item
from skipmap.metrics.base import Stats
from skipmap.metrics.trivial import copy_baseline
from skipmap.metrics.usable import references_of

_ORDER = 4


class Bleu:
    """Corpus BLEU / 100 with sacrebleu's defaults: 13a tokens, mixed case, exp smoothing.

    Any number of references. Statistics: matches of 1- to 4-grams, their totals, answer length, length of the
    closest reference.
    """

    name: ClassVar[str] = "bleu"
    needs: ClassVar[str] = "reference"

    def __init__(self) -> None:
        """Write the signature once."""
        scorer = BLEU()
        # Items may differ in how many references they have; sacrebleu writes that as -1, "var".
        scorer.num_refs = -1
        self._signature = str(scorer.get_signature())

    @property
    def signature(self) -> str:
        """The signature that sacrebleu writes."""
        return self._signature

    def stats(self, text: str, item: Item) -> Stats:
        """Matches (4), totals (4), answer length, reference length of one answer."""
        score = _scorer(references_of(item)).corpus_score([text], None)
        return tuple(float(value) for value in (*score.counts, *score.totals, score.sys_len, score.ref_len))

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        """Corpus BLEU / 100 from summed statistics."""
        if n == 0:
            return 0.0
        # Counts are whole numbers; ints keep sacrebleu's arithmetic as in its own corpus score.
        counts = [int(value) for value in total]
        score = BLEU.compute_bleu(
            correct=counts[:_ORDER],
            total=counts[_ORDER : 2 * _ORDER],
            sys_len=counts[-2],
            ref_len=counts[-1],
            smooth_method="exp",
        )
        return float(score.score) / 100.0

    def baseline(self, items: Sequence[Item]) -> float:
        """BLEU of the better of the empty answer and the prompt's first sentence."""
        return copy_baseline(self, items)


@lru_cache(maxsize=512)
def _scorer(references: tuple[str, ...]) -> BLEU:
    # One scorer a reference set keeps its n-grams; it is only read after that, so threads may share it.
    return BLEU(references=[[reference] for reference in references])
