"""Everything that was evaluated, without the need to have every prompt's record in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skipmap.profiling.pareto import Score
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet


@dataclass(frozen=True)
class Evaluated:
    """All evaluations of a job.

    ``scores``: A in tokens per step, and M, of every configuration, dense among them; ``sparse``: all but dense in the
    order of the result document, perhaps read only while they are iterated.
    """

    dense: Evaluation
    scores: Mapping[SkipSet, Score]
    sparse: Iterable[Evaluation]

    @classmethod
    def of(cls, rows: Mapping[SkipSet, Evaluation]) -> Evaluated:
        """Evaluations that are in memory."""
        scores = {skip: Score(row.accept_length, row.metric) for skip, row in rows.items()}
        return cls(rows[DENSE], scores, [rows[skip] for skip in sparse_order(rows)])


def sparse_order(skips: Iterable[SkipSet]) -> list[SkipSet]:
    """All but dense in the order of the result document: by level, then lexicographically."""
    return sorted((skip for skip in skips if skip != DENSE), key=lambda skip: (len(skip), skip))
