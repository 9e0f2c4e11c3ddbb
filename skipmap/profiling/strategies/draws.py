"""Random: what sets taken without looking would give, to tell whether a search finds more than luck."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from skipmap.profiling.strategies.base import Level, Steps, Strategy, Walk
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec


class Random(Strategy):
    """Sets drawn uniformly, so many of each size."""

    name = "random"
    summary = "draws sets of each size uniformly from all blocks, and reports their mean and spread"

    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """See ``Strategy.pool_size``."""
        return num_layers

    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """See ``Strategy.level_size``."""
        return min(spec.draws, math.comb(pool, level))

    def run(self, walk: Walk) -> Steps:
        """See ``Strategy.run``."""
        spec, layers = walk.spec, walk.num_layers
        depth = walk.depth(layers)
        stopped = f"all sizes up to {depth} were drawn"
        levels: list[Level] = []
        for size in range(1, depth + 1):
            level = yield from walk.evaluate(size, draw(layers, size, spec.draws, spec.seed))
            levels.append(level)
            if level.cut_by:
                walk.leave_out_levels(layers, size + 1, depth)
                stopped = level.stopped
                break
        # Work goes by block numbers, so what time has left of a size is no sample of it, and has no mean to tell.
        told = [level for level in levels if level.done and level.cut_by != "max_seconds"]
        notes = [
            f"sets of {level.number} have no mean: time ended with those of the lowest block numbers"
            for level in levels
            if level.done and level not in told
        ]
        found = {
            "draws": spec.draws,
            "seed": spec.seed,
            "sizes": [_spread_of(walk, level) for level in told],
        }
        return walk.outcome(range(layers), stopped, clamped=depth < spec.max_depth, found=found, notes=notes)


@lru_cache(maxsize=256)
def draw(num_layers: int, size: int, draws: int, seed: int) -> tuple[SkipSet, ...]:
    """Distinct sets of one size, uniformly from all blocks, in the order drawn; all of them where there are no more.

    Each size has its own stream of random numbers: how many sets of one size are drawn changes no other's.
    """
    # Only ``random()`` after seeding is promised to stay the same in later versions of Python.
    stream = random.Random(f"{seed}/{size}")
    wanted = min(draws, math.comb(num_layers, size))
    drawn: dict[SkipSet, None] = {}
    while len(drawn) < wanted:
        blocks = list(range(num_layers))
        for place in range(size):
            other = place + int(stream.random() * (num_layers - place))
            blocks[place], blocks[other] = blocks[other], blocks[place]
        drawn[SkipSet.of(blocks[:size])] = None
    return tuple(drawn)


def _spread_of(walk: Walk, level: Level) -> dict[str, Any]:
    scores = [walk.scores[s] for s in level.done]
    accept = "accept_length" if walk.spec.accept_measure == "tokens_per_step" else "accepted_drafts"
    return {
        "size": level.number,
        "evaluated": len(scores),
        "possible": math.comb(walk.num_layers, level.number),
        accept: _figures([score.accept for score in scores]),
        "metric": _figures([score.metric for score in scores]),
    }


def _figures(values: Sequence[float]) -> dict[str, float | None]:
    return {
        "mean": statistics.fmean(values),
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }
