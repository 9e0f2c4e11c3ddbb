"""Level after level over a pool of single blocks: what the strategies that keep a pool have in common."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from skipmap.profiling.floors import Floors
from skipmap.profiling.pareto import Score, best_first, dominance_ranks
from skipmap.profiling.strategies.base import Level, Walk
from skipmap.profiling.strategies.sight import Sight
from skipmap.profiling.work import Work
from skipmap.skipset import SkipSet

Grow = Callable[[Sequence[int], Level], list[SkipSet]]
"""Pool and last level -> sets of the next level, ascending."""


@dataclass(frozen=True)
class Breadth:
    """How the walk through the levels ended. ``cut``: blocks that max_pool took out of the pool."""

    pool: tuple[int, ...]
    cut: tuple[int, ...]
    stopped: str
    clamped: bool
    levels: tuple[Level, ...]


def breadth(walk: Walk, grow: Grow) -> Generator[Work, None, Breadth]:
    """Every single block, the pool of those that pass a floor, then level after level of what ``grow`` makes of it."""
    sight, limits, scores = walk.strategy.sight, walk.limits, walk.scores
    level = yield from walk.evaluate(1, walk.singles)
    levels = [level]
    pool, cut = pool_of({s.blocks[0]: scores[s] for s in level.done}, limits, sight, walk.spec.max_pool)
    depth = walk.depth(len(pool))
    if level.cut_by:
        walk.leave_out_levels(len(pool), 2, depth)
        return Breadth(pool, cut, level.stopped, False, tuple(levels))
    stopped = f"all levels up to {depth} were evaluated"
    if not pool:
        stopped = f"no single block meets {_floors(sight)}, so the pool is empty"
    for number in range(2, depth + 1):
        wanted = _promising_first(walk, pool, grow(pool, level))
        level = yield from walk.evaluate(number, wanted)
        levels.append(level)
        if level.cut_by:
            walk.leave_out_levels(len(pool), number + 1, depth)
            stopped = level.stopped
            break
        if not any(sight.admits(limits, scores[s]) for s in level.done):
            kind = "feasible" if sight.is_whole else "admitted"
            stopped = f"level {number} has no {kind} configuration"
            break
    return Breadth(pool, cut, stopped, depth < walk.spec.max_depth, tuple(levels))


def pool_of(
    singles: Mapping[int, Score], limits: Floors, sight: Sight, most: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Blocks that pass a floor, kept by dominance rank, crowding and index; and those that find no room."""
    passing = {block: sight.seen(score) for block, score in singles.items() if sight.joins(limits, score)}
    order = sorted(passing)
    if len(passing) > most and sight.is_whole:
        order = best_first(passing)
    elif len(passing) > most:
        # By one figure alone those of one rank are equal, and none is lonelier than another.
        order.sort(key=dominance_ranks(passing).__getitem__)
    return tuple(sorted(order[:most])), tuple(sorted(order[most:]))


def _promising_first(walk: Walk, pool: Sequence[int], sets: list[SkipSet]) -> list[SkipSet]:
    """By the sum of the members' dominance ranks among the single blocks, where not all find room."""
    if walk.room is None or len(sets) <= walk.room:
        return sets
    ranks = dominance_ranks({b: walk.strategy.sight.seen(walk.scores[SkipSet((b,))]) for b in pool})
    return sorted(sets, key=lambda s: (sum(ranks[block] for block in s), s.blocks))


def _floors(sight: Sight) -> str:
    return "either floor" if sight.is_whole else f"the floor of {sight.words}"
