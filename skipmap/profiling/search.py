"""The search as a pure state machine: evaluations in, the next configurations or the outcome out.

The state is a function of the stored figures alone, so replaying them gives the same next level in any process. Levels:
0 is dense, 1 sets of a single block, k >= 2 sets of k blocks; which sets those are is the strategy's matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from skipmap.errors import InvalidInput
from skipmap.profiling.floors import SLACK, Floors, floors
from skipmap.profiling.pareto import Score
from skipmap.profiling.strategies.base import Walk
from skipmap.profiling.strategies.registry import STRATEGIES, strategy_of
from skipmap.profiling.work import DENSE, Budget, Group, Outcome, Work, WorkKind, work
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec

__all__ = [
    "DENSE",
    "LARGEST_LEVEL",
    "SLACK",
    "STRATEGIES",
    "Budget",
    "Floors",
    "Group",
    "Outcome",
    "Work",
    "WorkKind",
    "check_bounds",
    "check_dense_steps",
    "floors",
    "next_work",
    "strategy_of",
]

LARGEST_LEVEL = 100_000


def check_bounds(spec: SearchSpec, num_layers: int) -> None:
    """Refuse a target too small, bounds that end before the single blocks are known, and those nobody could search.

    Raises InvalidInput naming the field.
    """
    if num_layers < 2:
        raise InvalidInput("target", f"has {num_layers} blocks; there is something to skip from 2 on")
    strategy = strategy_of(spec.strategy)
    strategy.check(spec, num_layers)
    pool = strategy.pool_size(spec, num_layers)
    first = strategy.level_size(spec, num_layers, pool, 1)
    if spec.max_evaluations is not None and spec.max_evaluations < 1 + first:
        sets = "the first set" if first == 1 else f"the first {first} sets of one block"
        raise InvalidInput(
            "search.max_evaluations",
            f"{spec.max_evaluations} is less than dense and {sets}; give at least {1 + first}",
        )
    narrowed = " or ".join(
        ["max_depth", *(name for name in ("max_pool", "beam_width") if name in strategy.reads)]
    )
    for level in range(2, min(spec.max_depth, pool) + 1):
        size = strategy.level_size(spec, num_layers, pool, level)
        if size > LARGEST_LEVEL:
            raise InvalidInput(
                "search.max_depth",
                f"level {level} of a pool of {pool} blocks has {size:,} configurations, and at most "
                f"{LARGEST_LEVEL:,} can be listed; lower {narrowed}",
            )


def check_dense_steps(steps: int) -> None:
    """Refuse a job whose dense run never takes a verification step; raises InvalidInput."""
    if steps == 0:
        raise InvalidInput(
            "decoding.max_new_tokens",
            "every dense answer is a single token, so no verification step ever runs and there is nothing to "
            "profile; let the answers be longer (max_new_tokens, template or task)",
        )


def next_work(
    spec: SearchSpec,
    num_layers: int,
    scores: Mapping[SkipSet, Score],
    ranks: Mapping[SkipSet, float] | None = None,
    *,
    no_signal: bool = False,
    seconds_spent: float = 0.0,
) -> Work | Outcome:
    """What to evaluate or rank next, or the outcome.

    ``scores``: every evaluation so far; ``ranks``: every ranking figure so far, the set of the lowest goes first.
    ``no_signal``: dense is no better than a trivial answer, so nothing after it is worth evaluating.
    ``seconds_spent``: seconds of evaluating and ranking so far, compared with ``max_seconds``.
    """
    if DENSE not in scores:
        return work("dense", 0, [DENSE], scores, spec.group_size)
    strategy = strategy_of(spec.strategy)
    limits = floors(scores[DENSE], spec.eps, spec.tau)
    out_of_time = spec.max_seconds is not None and seconds_spent >= spec.max_seconds
    walk = Walk(strategy, spec, num_layers, scores, ranks or {}, limits, out_of_time=out_of_time)
    if no_signal and not spec.allow_no_signal:
        walk.leave_out_levels(strategy.pool_size(spec, num_layers), 1, 1)
        return walk.outcome((), "dense scores no better than a trivial answer: no signal to search by")
    steps = strategy.run(walk)
    try:
        return next(steps)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
