"""Greedy: one block a round, the one whose loss the task metric feels least (after the idea of GM-Skip)."""

from __future__ import annotations

from skipmap.errors import InvalidInput
from skipmap.profiling.strategies.base import Steps, Strategy, Walk
from skipmap.profiling.work import DENSE
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec


class Greedy(Strategy):
    """Greedy search by the task metric, deep blocks first, the ends of the target protected."""

    name = "greedy"
    summary = "adds one block a round, the one that leaves the best metric; early blocks are protected"

    def check(self, spec: SearchSpec, num_layers: int) -> None:
        """See ``Strategy.check``."""
        first, last = spec.protect_first, spec.protect_last
        if first + last >= num_layers:
            raise InvalidInput(
                "search.protect_last" if last > first else "search.protect_first",
                f"protect_first {first} and protect_last {last} leave none of the target's {num_layers} blocks; "
                f"together they may be at most {num_layers - 1}",
            )

    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """See ``Strategy.pool_size``."""
        return num_layers - spec.protect_first - spec.protect_last

    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """See ``Strategy.level_size``."""
        return max(0, pool - level + 1)

    def run(self, walk: Walk) -> Steps:
        """See ``Strategy.run``."""
        spec, scores = walk.spec, walk.scores
        blocks = range(spec.protect_first, walk.num_layers - spec.protect_last)
        depth = walk.depth(len(blocks))
        path: list[SkipSet] = []
        stopped = f"all rounds up to {depth} were taken"
        for number in range(1, depth + 1):
            last = path[-1] if path else DENSE
            # Deepest first: what a bound cuts off a round are its early blocks.
            deeper = {SkipSet.of((*last, block)): block for block in reversed(blocks) if block not in last}
            level = yield from walk.evaluate(number, list(deeper))
            if level.cut_by:
                walk.leave_out_levels(len(blocks), number + 1, depth)
                stopped = level.stopped
                break
            best = max(level.done, key=lambda s: (scores[s].metric, deeper[s]))
            if not walk.limits.admits_metric(scores[best]):
                stopped = f"the best metric of round {number} is below its floor"
                break
            path.append(best)
        found = {"path": [s.to_list() for s in path]}
        return walk.outcome(blocks, stopped, clamped=depth < spec.max_depth, found=found)
