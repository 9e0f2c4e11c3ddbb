"""SLEB: one block a round, the one whose loss the text's likelihood feels least (Song et al. 2024)."""

from __future__ import annotations

from skipmap.errors import InvalidInput
from skipmap.profiling.strategies.base import Steps, Strategy, Walk
from skipmap.profiling.work import DENSE
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec

_PROTECTED = 2
"""The first and the last block."""


class Sleb(Strategy):
    """Greedy search by perplexity; A and M are evaluated of each round's set alone."""

    name = "sleb"
    summary = (
        "adds one block a round, the one that raises perplexity least; the first and last block are protected"
    )

    def check(self, spec: SearchSpec, num_layers: int) -> None:
        """See ``Strategy.check``."""
        if num_layers <= _PROTECTED:
            raise InvalidInput(
                "target",
                f"has {num_layers} blocks; sleb protects the first and the last, so there is something to skip from "
                f"{_PROTECTED + 1} on",
            )

    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """See ``Strategy.pool_size``."""
        return num_layers - _PROTECTED

    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """See ``Strategy.level_size``."""
        return 1

    def rank_size(self, spec: SearchSpec, num_layers: int, level: int) -> int:
        """See ``Strategy.rank_size``."""
        dense = level == 1
        return max(0, self.pool_size(spec, num_layers) - level + 1) + dense

    def run(self, walk: Walk) -> Steps:
        """See ``Strategy.run``."""
        blocks = range(1, walk.num_layers - 1)
        depth = walk.depth(len(blocks))
        path = [DENSE]
        stopped = f"all rounds up to {depth} were taken"
        for number in range(1, depth + 1):
            tried = [SkipSet.of((*path[-1], block)) for block in blocks if block not in path[-1]]
            # What cannot be evaluated need not be ranked; dense is ranked as well, for that is where the path begins.
            if walk.room != 0 and (
                yield from walk.rank(number, [*path[:1], *tried] if number == 1 else tried)
            ):
                best = min(tried, key=lambda s: (walk.ranks[s], s))
                level = yield from walk.evaluate(number, [best])
                if not level.cut_by:
                    path.append(best)
                    continue
                stopped = level.stopped
            else:
                walk.leave_out(number, 1)
                bound = "max_evaluations" if walk.room == 0 else "max_seconds"
                stopped = f"search.{bound} was reached at level {number}"
            walk.leave_out_levels(len(blocks), number + 1, depth)
            break
        found = {
            "path": [{"skip": s.to_list(), "log_perplexity": walk.ranks[s]} for s in path if s in walk.ranks]
        }
        return walk.outcome(blocks, stopped, clamped=depth < walk.spec.max_depth, found=found)
