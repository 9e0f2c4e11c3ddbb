"""Beam: as tss, but each level grows from the best sets of the last one alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skipmap.profiling.pareto import best_first
from skipmap.profiling.strategies.base import Level, Steps, Strategy, Walk
from skipmap.profiling.strategies.breadth import breadth
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec


class Beam(Strategy):
    """Beam search by non-dominated sorting; every set of a level takes part in it, feasible or not."""

    name = "beam"
    summary = (
        "grows each level from the beam_width best sets of the last, by dominance in accept length and metric"
    )

    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """See ``Strategy.pool_size``."""
        return min(spec.max_pool, num_layers)

    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """See ``Strategy.level_size``."""
        if level == 1:
            return num_layers
        parents = min(spec.beam_width, math.comb(pool, level - 1))
        return min(math.comb(pool, level), parents * (pool - level + 1))

    def run(self, walk: Walk) -> Steps:
        """See ``Strategy.run``."""
        kept: dict[int, list[SkipSet]] = {}

        def grow(pool: Sequence[int], last: Level) -> list[SkipSet]:
            # Of the single blocks those of the pool alone; of later levels all are subsets of it.
            there = {s: walk.scores[s] for s in last.done if set(s) <= set(pool)}
            kept[last.number] = best_first(there)[: walk.spec.beam_width]
            return sorted({SkipSet.of((*s, b)) for s in kept[last.number] for b in pool if b not in s})

        end = yield from breadth(walk, grow)
        levels = [
            {
                "level": level.number,
                "evaluated": len(level.done),
                "kept": [s.to_list() for s in kept.get(level.number, ())],
            }
            for level in end.levels
        ]
        last, deepest = end.levels[-1], walk.depth(len(end.pool))
        notes = []
        if last.cut_by and last.number < deepest:
            notes.append(
                f"what was not evaluated after level {last.number} is the most that a beam of width "
                f"{walk.spec.beam_width} can have there"
            )
        return walk.outcome(
            end.pool,
            end.stopped,
            cut=end.cut,
            clamped=end.clamped,
            found={"width": walk.spec.beam_width, "levels": levels},
            notes=notes,
        )
