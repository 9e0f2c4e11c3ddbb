"""From evaluations and costs to the front and the named operating points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from skipmap.profiling.pareto import Score, pareto_front
from skipmap.skipset import SkipSet

PointName = Literal["paper", "cheapest", "fastest"]


@dataclass(frozen=True)
class Selection:
    """``front`` in ascending order; a point is None when nothing is feasible."""

    front: tuple[SkipSet, ...]
    points: Mapping[PointName, SkipSet | None]


def select(feasible: Mapping[SkipSet, Score], cost: Callable[[SkipSet], float]) -> Selection:
    """Pareto front and operating points of the feasible configurations.

    Scores hold accept length A (tokens per step), whatever measure the floor uses, for speed follows A. ``cost``: C
    relative to dense. ``paper`` = cheapest on the front, ``cheapest`` = cheapest of all, ``fastest`` = largest A / C.
    Ties: lower C, larger M, larger A, lexicographic set.
    """
    front = tuple(sorted(pareto_front(feasible)))

    def order(skip: SkipSet) -> tuple[float, float, float, SkipSet]:
        score = feasible[skip]
        return (cost(skip), -score.metric, -score.accept, skip)

    def speed(skip: SkipSet) -> tuple[float, tuple[float, float, float, SkipSet]]:
        return (-feasible[skip].accept / cost(skip), order(skip))

    return Selection(
        front,
        {
            "paper": min(front, key=order, default=None),
            "cheapest": min(feasible, key=order, default=None),
            "fastest": min(feasible, key=speed, default=None),
        },
    )
