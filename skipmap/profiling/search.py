"""The TSS search as a pure state machine: evaluations in, the next configurations or the outcome out.

The state is a function of the evaluations alone, so replaying stored rows gives the same next level in any process.
Levels: 0 is dense, 1 the single blocks, k >= 2 all size-k subsets of the pool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from skipmap.errors import InvalidInput
from skipmap.profiling.pareto import Score, crowding_distances, dominance_ranks
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec

DENSE = SkipSet()
SLACK = 1e-12
"""What rounding may take off a figure that meets its floor."""

LARGEST_LEVEL = 100_000

WorkKind = Literal["dense", "single", "level"]
Group = tuple[SkipSet, ...]


@dataclass(frozen=True)
class Work:
    """A level to evaluate: its fixed groups, and those that still lack a configuration."""

    kind: WorkKind
    level: int
    groups: tuple[Group, ...]
    pending: tuple[Group, ...]

    @property
    def size(self) -> int:
        """Configurations of the level."""
        return sum(len(group) for group in self.groups)


@dataclass(frozen=True)
class Budget:
    """What was evaluated and what the bounds cut; a job must never look exhaustive when it was not."""

    evaluated: int
    depth_reached: int
    max_depth: int
    depth_clamped: bool
    pool_found: int
    pool_cut: tuple[int, ...]
    not_evaluated: dict[int, int] = field(default_factory=dict)
    """Level -> configurations left out."""

    @property
    def exhaustive(self) -> bool:
        """Whether nothing was cut."""
        return not self.pool_cut and not any(self.not_evaluated.values())


@dataclass(frozen=True)
class Outcome:
    """End of the search. ``stopped``: in plain words, why it ended."""

    pool: tuple[int, ...]
    feasible: tuple[SkipSet, ...]
    budget: Budget
    stopped: str


@dataclass(frozen=True)
class Floors:
    """Least A and M of a feasible configuration."""

    accept: float
    metric: float

    def admits_accept(self, score: Score) -> bool:
        """Whether the accept floor is met."""
        return score.accept >= self.accept - SLACK

    def admits_metric(self, score: Score) -> bool:
        """Whether the metric floor is met."""
        return score.metric >= self.metric - SLACK

    def admits(self, score: Score) -> bool:
        """The strict test: both floors are met."""
        return self.admits_accept(score) and self.admits_metric(score)


def floors(dense: Score, eps: float, tau: float) -> Floors:
    """Floors relative to the dense run on the same part."""
    return Floors((1 - eps) * dense.accept, (1 - tau) * dense.metric)


def check_bounds(spec: SearchSpec, num_layers: int) -> None:
    """Refuse a target too small, bounds that end before the single blocks are known, and those nobody could search.

    Raises InvalidInput naming the field.
    """
    if num_layers < 2:
        raise InvalidInput("target", f"has {num_layers} blocks; there is something to skip from 2 on")
    least = 1 + num_layers
    if spec.max_evaluations is not None and spec.max_evaluations < least:
        raise InvalidInput(
            "search.max_evaluations",
            f"{spec.max_evaluations} is less than dense and the {num_layers} single blocks; give at least {least}",
        )
    pool = min(spec.max_pool, num_layers)
    for level in range(2, min(spec.max_depth, pool) + 1):
        if math.comb(pool, level) > LARGEST_LEVEL:
            raise InvalidInput(
                "search.max_depth",
                f"level {level} of a pool of {pool} blocks has {math.comb(pool, level):,} configurations, and at most "
                f"{LARGEST_LEVEL:,} can be listed; lower max_depth or max_pool",
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
    *,
    no_signal: bool = False,
    seconds_spent: float = 0.0,
) -> Work | Outcome:
    """What to evaluate next, or the outcome.

    ``scores``: every evaluation so far. ``no_signal``: dense is no better than a trivial answer, so nothing after it
    is worth evaluating. ``seconds_spent``: evaluation seconds so far, compared with ``max_seconds``.
    """
    if DENSE not in scores:
        return _work("dense", 0, [DENSE], spec, scores)
    limits = floors(scores[DENSE], spec.eps, spec.tau)
    progress = _Progress(spec, num_layers, scores, limits)
    if no_signal and not spec.allow_no_signal:
        progress.leave_out(1, num_layers)
        return progress.outcome(
            (), (), 0, "dense scores no better than a trivial answer: no signal to search by"
        )
    out_of_time = spec.max_seconds is not None and seconds_spent >= spec.max_seconds
    singles = [SkipSet((block,)) for block in range(num_layers)]
    missing = sum(s not in scores for s in singles)
    if missing and not out_of_time:
        return _work("single", 1, singles, spec, scores)
    progress.leave_out(1, missing)
    pool, cut = _pool(spec, {s.blocks[0]: scores[s] for s in singles if s in scores}, limits)
    depth = min(spec.max_depth, len(pool), num_layers - 1)
    if missing:
        progress.leave_out_levels(pool, 2, depth)
        reached = 1 if missing < num_layers else 0
        return progress.outcome(pool, cut, reached, "search.max_seconds was reached at level 1")
    stopped = f"all levels up to {depth} were evaluated"
    if not pool:
        stopped = "no single block meets either floor, so the pool is empty"
    reached = 1
    for level in range(2, depth + 1):
        chosen = _choose(spec, pool, level, scores, progress.planned)
        progress.leave_out(level, math.comb(len(pool), level) - len(chosen))
        pending = sum(s not in scores for s in chosen)
        if pending and not out_of_time:
            return _work("level", level, chosen, spec, scores)
        progress.leave_out(level, pending)
        progress.planned += len(chosen)
        done = [s for s in chosen if s in scores]
        reached = level if done else reached
        cut_short = len(done) < math.comb(len(pool), level)
        if not cut_short and not any(limits.admits(scores[s]) for s in done):
            stopped = f"level {level} has no feasible configuration"
            break
        if cut_short:
            progress.leave_out_levels(pool, level + 1, depth)
            what = "max_seconds" if pending else "max_evaluations"
            stopped = f"search.{what} was reached at level {level}"
            break
    return progress.outcome(pool, cut, reached, stopped, clamped=depth < spec.max_depth)


class _Progress:
    """Tally of what a job evaluated and left out."""

    def __init__(
        self, spec: SearchSpec, num_layers: int, scores: Mapping[SkipSet, Score], limits: Floors
    ) -> None:
        self._spec, self._scores, self._limits = spec, scores, limits
        self.planned = 1 + num_layers
        self._left_out: dict[int, int] = {}

    def leave_out(self, level: int, count: int) -> None:
        if count:
            self._left_out[level] = self._left_out.get(level, 0) + count

    def leave_out_levels(self, pool: Sequence[int], first: int, last: int) -> None:
        for level in range(first, last + 1):
            self.leave_out(level, math.comb(len(pool), level))

    def outcome(
        self, pool: Sequence[int], cut: Sequence[int], reached: int, stopped: str, *, clamped: bool = False
    ) -> Outcome:
        feasible = tuple(
            sorted(s for s, score in self._scores.items() if s != DENSE and self._limits.admits(score))
        )
        budget = Budget(
            evaluated=len(self._scores),
            depth_reached=reached,
            max_depth=self._spec.max_depth,
            depth_clamped=clamped,
            pool_found=len(pool) + len(cut),
            pool_cut=tuple(cut),
            not_evaluated=self._left_out,
        )
        return Outcome(tuple(pool), feasible, budget, stopped)


def _pool(spec: SearchSpec, singles: Mapping[int, Score], limits: Floors) -> tuple[list[int], list[int]]:
    """Blocks that pass either floor, kept by dominance rank, crowding and index; and those that max_pool cuts."""
    passing = {
        block: score
        for block, score in singles.items()
        if limits.admits_accept(score) or limits.admits_metric(score)
    }
    if len(passing) <= spec.max_pool:
        return sorted(passing), []
    ranks = dominance_ranks(passing)
    crowding: dict[int, float] = {}
    for rank in set(ranks.values()):
        crowding |= crowding_distances({b: s for b, s in passing.items() if ranks[b] == rank})
    order = sorted(passing, key=lambda block: (ranks[block], -crowding[block], block))
    return sorted(order[: spec.max_pool]), sorted(order[spec.max_pool :])


def _choose(
    spec: SearchSpec, pool: list[int], level: int, scores: Mapping[SkipSet, Score], planned: int
) -> list[SkipSet]:
    """All size-``level`` subsets of the pool, or the most promising ones that max_evaluations leaves room for."""
    everything = [SkipSet(blocks) for blocks in combinations(pool, level)]
    room = len(everything) if spec.max_evaluations is None else max(0, spec.max_evaluations - planned)
    if len(everything) <= room:
        return everything
    ranks = dominance_ranks({block: scores[SkipSet((block,))] for block in pool})
    everything.sort(key=lambda s: (sum(ranks[block] for block in s), s.blocks))
    return sorted(everything[:room])


def _work(
    kind: WorkKind, level: int, chosen: list[SkipSet], spec: SearchSpec, scores: Mapping[SkipSet, Score]
) -> Work:
    groups = tuple(
        tuple(chosen[start : start + spec.group_size]) for start in range(0, len(chosen), spec.group_size)
    )
    pending = tuple(group for group in groups if any(s not in scores for s in group))
    return Work(kind, level, groups, pending)
