"""Dominance in (accept length, metric): fronts, ranks and crowding (Deb et al. 2002, NSGA-II)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from skipmap.skipset import SkipSet

Key = TypeVar("Key", bound=Hashable)
Ordered = TypeVar("Ordered", int, SkipSet)


@dataclass(frozen=True)
class Score:
    """A (by the job's accept measure) and M of one configuration; both higher is better."""

    accept: float
    metric: float

    def dominates(self, other: Score) -> bool:
        """At least as good in both and better in one."""
        return (
            self.accept >= other.accept
            and self.metric >= other.metric
            and (self.accept > other.accept or self.metric > other.metric)
        )


def pareto_front(scores: Mapping[Key, Score]) -> list[Key]:
    """Keys that no other key dominates, in the given order; equal scores stay together."""
    front: set[Key] = set()
    last = None
    # From the largest A down: what comes later is on the front if its M is larger than any before.
    for key in sorted(scores, key=lambda key: (-scores[key].accept, -scores[key].metric)):
        if last is None or scores[key].metric > last.metric or scores[key] == last:
            front.add(key)
            last = scores[key]
    return [key for key in scores if key in front]


def dominance_ranks(scores: Mapping[Key, Score]) -> dict[Key, int]:
    """Non-dominated sorting: 0 for the front, 1 for the front of the rest, and so on."""
    left = dict(scores)
    ranks: dict[Key, int] = {}
    rank = 0
    while left:
        front = pareto_front(left)
        for key in front:
            ranks[key] = rank
            del left[key]
        rank += 1
    return ranks


def crowding_distances(scores: Mapping[Key, Score]) -> dict[Key, float]:
    """Normalised gap to the neighbours in both figures; infinite at the ends."""
    distances = dict.fromkeys(scores, 0.0)
    figures: tuple[Callable[[Score], float], ...] = (lambda s: s.accept, lambda s: s.metric)
    for figure in figures:
        order = sorted(scores, key=lambda key: figure(scores[key]))
        low, high = figure(scores[order[0]]), figure(scores[order[-1]])
        distances[order[0]] = distances[order[-1]] = math.inf
        if high == low:
            continue
        for before, key, after in zip(order, order[1:], order[2:], strict=False):
            distances[key] += (figure(scores[after]) - figure(scores[before])) / (high - low)
    return distances


def best_first(scores: Mapping[Ordered, Score]) -> list[Ordered]:
    """Keys by dominance rank, then crowding within it (the lonelier first), then their own order."""
    # Who stands at the end of equal figures is a matter of order, so it must be a fixed one.
    scores = {key: scores[key] for key in sorted(scores)}
    ranks = dominance_ranks(scores)
    crowding: dict[Ordered, float] = {}
    for rank in set(ranks.values()):
        crowding |= crowding_distances({key: score for key, score in scores.items() if ranks[key] == rank})
    return sorted(scores, key=lambda key: (ranks[key], -crowding[key], key))
