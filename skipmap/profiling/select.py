"""From evaluations and costs to the front and the named operating points, and why those were chosen, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from skipmap.profiling.pareto import Score, pareto_front
from skipmap.skipset import SkipSet

PointName = Literal["paper", "cheapest", "fastest"]
Cost = Callable[[SkipSet], float]
"""Cost of a verification step relative to dense."""


@dataclass(frozen=True)
class Selection:
    """``front`` in ascending order; a point is None when nothing is feasible."""

    front: tuple[SkipSet, ...]
    points: Mapping[PointName, SkipSet | None]


def select(feasible: Mapping[SkipSet, Score], cost: Cost) -> Selection:
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


def why_chosen(
    name: PointName,
    selection: Selection,
    feasible: Mapping[SkipSet, Score],
    cost: Cost,
    metric: str,
    called: str = "feasible",
) -> str:
    """Why the named point is the one that it is, with what it tied with; ``metric``: what M is called.

    ``selection``: of the same configurations and costs, with at least one of them; ``called``: what they all are.
    """
    chosen = selection.points[name]
    assert chosen is not None
    among = selection.front if name == "paper" else tuple(feasible)
    kind = "on the Pareto front" if name == "paper" else f"that are {called}"
    if len(among) == 1:
        return f"only configuration {'on the Pareto front' if name == 'paper' else f'that is {called}'}"

    def speed(skip: SkipSet) -> float:
        return feasible[skip].accept / cost(skip)

    rule, equal, figure = (
        ("largest in accept length over cost", "are equally fast by that", speed)
        if name == "fastest"
        else ("cheapest in cost of a verification step", "cost the same", cost)
    )
    tied = [skip for skip in among if figure(skip) == figure(chosen)]
    reason = f"{rule} of the {len(among)} configurations {kind}"
    if len(tied) == 1:
        return reason
    return (
        f"{reason}; {len(tied)} of them {equal}, and of these it has {_decided(tied, feasible, cost, metric)}"
    )


def _decided(tied: Sequence[SkipSet], feasible: Mapping[SkipSet, Score], cost: Cost, metric: str) -> str:
    """What sets the chosen one of configurations apart that tie, in the order of the rule for ties."""
    told, left = [], list(tied)
    rules: tuple[tuple[str, Cost], ...] = (
        ("the lowest cost", cost),
        (f"the highest {metric}", lambda skip: -feasible[skip].metric),
        ("the longest accept length", lambda skip: -feasible[skip].accept),
    )
    for words, figure in rules:
        best = min(map(figure, left))
        kept = [skip for skip in left if figure(skip) == best]
        if len(kept) < len(left):
            told.append(words)
            left = kept
    if len(left) > 1:
        told.append("the lowest block numbers")
    return " and, where that ties too, ".join(told)
