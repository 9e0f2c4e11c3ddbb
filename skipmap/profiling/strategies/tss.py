"""TSS: all subsets of the pool, level by level; and the same with one of its two objectives alone."""

from __future__ import annotations

import math
from itertools import combinations
from typing import ClassVar

from skipmap.profiling.strategies.base import Steps, Strategy, Walk
from skipmap.profiling.strategies.breadth import breadth
from skipmap.profiling.strategies.sight import Sight
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec, StrategyName


class Tss(Strategy):
    """Breadth search by both floors."""

    name: ClassVar[StrategyName] = "tss"
    summary = "every set of the blocks that keep accept length or metric, level by level"
    covers = True

    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """See ``Strategy.pool_size``."""
        return min(spec.max_pool, num_layers)

    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """See ``Strategy.level_size``."""
        return num_layers if level == 1 else math.comb(pool, level)

    def run(self, walk: Walk) -> Steps:
        """See ``Strategy.run``."""
        end = yield from breadth(
            walk, lambda pool, last: [SkipSet(blocks) for blocks in combinations(pool, last.number + 1)]
        )
        found = {} if self.sight.is_whole else {"looks_at": self.sight.words}
        return walk.outcome(end.pool, end.stopped, cut=end.cut, clamped=end.clamped, found=found)


class AcceptOnly(Tss):
    """Breadth search by the floor of accept length alone."""

    name = "accept_only"
    summary = "as tss, but by accept length alone: the metric decides nothing"
    sight = Sight(metric=False)


class MetricOnly(Tss):
    """Breadth search by the floor of the metric alone."""

    name = "metric_only"
    summary = "as tss, but by the metric alone: accept length decides nothing"
    sight = Sight(accept=False)
