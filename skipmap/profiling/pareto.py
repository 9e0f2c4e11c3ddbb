"""Dominance in (accept length, metric): fronts, ranks and crowding (Deb et al. 2002, NSGA-II)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
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
    ranks: dict[Key, int] = {}
    lows: list[float] = []
    last = None
    rank = 0
    # From the largest A down: whoever came before, and has as large an M, dominates. Of each front ``lows`` holds minus
    # its largest M so far, which is ascending: a key goes to the first front where its own is larger than any.
    for key in sorted(scores, key=lambda key: (-scores[key].accept, -scores[key].metric)):
        if scores[key] != last:
            last = scores[key]
            rank = bisect_right(lows, -last.metric)
            lows[rank : rank + 1] = [-last.metric]
        ranks[key] = rank
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
    fronts: dict[int, dict[Ordered, Score]] = defaultdict(dict)
    for key, score in scores.items():
        fronts[ranks[key]][key] = score
    crowding: dict[Ordered, float] = {}
    for front in fronts.values():
        crowding |= crowding_distances(front)
    return sorted(scores, key=lambda key: (ranks[key], -crowding[key], key))
