"""Sight: which of the two figures a strategy looks at."""

from __future__ import annotations

from dataclasses import dataclass

from skipmap.profiling.floors import Floors
from skipmap.profiling.pareto import Score

_UNSEEN = 1.0


@dataclass(frozen=True)
class Sight:
    """Whether accept length and metric are looked at; what is not looked at decides nothing, not even a tie."""

    accept: bool = True
    metric: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether both figures are seen."""
        return self.accept and self.metric

    @property
    def words(self) -> str:
        """What is looked at."""
        return " and ".join(
            name for name, seen in (("accept length", self.accept), ("metric", self.metric)) if seen
        )

    def seen(self, score: Score) -> Score:
        """The score as the strategy sees it: a figure that it does not look at is the same for all."""
        return Score(score.accept if self.accept else _UNSEEN, score.metric if self.metric else _UNSEEN)

    def joins(self, limits: Floors, score: Score) -> bool:
        """The permissive test of the pool: any floor in sight is met."""
        return (self.accept and limits.admits_accept(score)) or (self.metric and limits.admits_metric(score))

    def admits(self, limits: Floors, score: Score) -> bool:
        """The strict test: all floors in sight are met."""
        return (not self.accept or limits.admits_accept(score)) and (
            not self.metric or limits.admits_metric(score)
        )
