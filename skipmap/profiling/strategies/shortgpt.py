"""ShortGPT: blocks that change the hidden state least go first (Men et al. 2024)."""

from __future__ import annotations

from skipmap.profiling.strategies.base import Steps, Strategy, Walk
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec


class ShortGpt(Strategy):
    """The n blocks of lowest influence, n = 1, 2, ...; a block's influence is measured once, on the dense target."""

    name = "shortgpt"
    summary = "skips the blocks that turn the hidden state least, as measured once on the dense target"

    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """See ``Strategy.pool_size``."""
        return num_layers

    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """See ``Strategy.level_size``."""
        return 1

    def rank_size(self, spec: SearchSpec, num_layers: int, level: int) -> int:
        """See ``Strategy.rank_size``."""
        return num_layers if level == 1 else 0

    def run(self, walk: Walk) -> Steps:
        """See ``Strategy.run``."""
        layers = range(walk.num_layers)
        depth = walk.depth(len(layers))
        clamped = depth < walk.spec.max_depth
        if not (yield from walk.rank(1, walk.singles)):
            walk.leave_out_levels(len(layers), 1, depth)
            return walk.outcome(
                layers, "search.max_seconds was reached while blocks were ranked", clamped=clamped
            )
        influence = [walk.ranks[single] for single in walk.singles]
        order = sorted(layers, key=lambda block: (influence[block], block))
        stopped = "the least influential block was taken"
        if depth > 1:
            stopped = f"the {depth} least influential blocks were taken one after the other"
        for number in range(1, depth + 1):
            level = yield from walk.evaluate(number, [SkipSet.of(order[:number])])
            if level.cut_by:
                walk.leave_out_levels(len(layers), number + 1, depth)
                stopped = level.stopped
                break
        found = {"influence": influence, "order": order}
        return walk.outcome(layers, stopped, clamped=clamped, found=found)
