"""Floors: the least accept length and metric that a configuration must keep of dense."""

from __future__ import annotations

from dataclasses import dataclass

from skipmap.profiling.pareto import Score

SLACK = 1e-12
"""What rounding may take off a figure that meets its floor."""


@dataclass(frozen=True)
class Floors:
    """Least A and M of a feasible configuration."""

    accept: float
    metric: float

    def admits_accept(self, score: Score) -> bool:
        """Whether the accept floor is met."""
        return score.accept >= self.accept - SLACK

    def admits_metric(self, score: Score) -> bool:
        """Whether the metric floor is met."""
        return score.metric >= self.metric - SLACK

    def admits(self, score: Score) -> bool:
        """The strict test: both floors are met."""
        return self.admits_accept(score) and self.admits_metric(score)


def floors(dense: Score, eps: float, tau: float) -> Floors:
    """Floors relative to the dense run on the same part."""
    return Floors((1 - eps) * dense.accept, (1 - tau) * dense.metric)
