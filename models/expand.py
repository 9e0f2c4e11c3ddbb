"""What comes after the stored rows of a job: a pure function of them, so every process finds the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from models.chunks import Keys, run_key, run_of, skip_key
from models.findings import WHOLE
from models.jobs import Facts
from models.levels import LevelKind
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import Outcome, check_bounds, check_dense_steps, next_work
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec


@dataclass(frozen=True)
class Stored:
    """What a job has stored. ``points``: skip sets of the held-out check, once cost is measured."""

    spec: JobSpec
    facts: Facts
    scores: Mapping[SkipSet, Score]
    dense_steps: int
    dense_metric: float
    seconds_spent: float
    points: tuple[SkipSet, ...] | None = None
    ranks: Mapping[SkipSet, float] = field(default_factory=dict)
    held_out_runs: Collection[str] = ()
    has_result: bool = False


@dataclass(frozen=True)
class NextLevel:
    """A level to make. ``groups``: keys of all its units, group by group."""

    kind: LevelKind
    depth: int | None
    groups: tuple[Keys, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    outcome: Mapping[str, Any] | None = None
    """The search's outcome as plain values, once it has ended."""

    @property
    def size(self) -> int:
        """Units in all."""
        return sum(len(keys) for keys in self.groups)


@dataclass(frozen=True)
class End:
    """Nothing comes after: the job has its result."""


def next_level(stored: Stored) -> NextLevel | End:
    """The next level of a job whose dense evaluation is stored.

    Raises InvalidInput when the spec does not fit the target, or when dense shows that nothing can be profiled.
    """
    search, facts = stored.spec.search, stored.facts
    check_bounds(search, facts.num_layers)
    check_dense_steps(stored.dense_steps)
    no_signal = stored.dense_metric <= facts.baseline
    step = next_work(
        search,
        facts.num_layers,
        stored.scores,
        stored.ranks,
        no_signal=no_signal,
        seconds_spent=stored.seconds_spent,
    )
    if not isinstance(step, Outcome):
        groups = tuple(tuple(skip_key(skip) for skip in group) for group in step.groups)
        return NextLevel(step.kind, step.level, groups)
    if not no_signal or search.allow_no_signal:
        outcome = describe(step)
        if stored.points is None:
            return NextLevel("cost", None, ((WHOLE,),), outcome=outcome)
        if stored.points and not _covered(stored.held_out_runs, facts.held_out_items):
            plan = {"points": [skip.to_list() for skip in stored.points]}
            return NextLevel("held_out", None, _runs(stored), plan, outcome)
    if not stored.has_result:
        return NextLevel("result", None, ((WHOLE,),), outcome=describe(step))
    return End()


def describe(outcome: Outcome) -> dict[str, Any]:
    """The search's outcome as plain values; ``ranked`` and ``notes`` are there where there is something to tell."""
    budget = outcome.budget
    described = {
        "pool": list(outcome.pool),
        "feasible": len(outcome.feasible),
        "stopped": outcome.stopped,
        "evaluated": budget.evaluated,
        "depth_reached": budget.depth_reached,
        "exhaustive": budget.exhaustive,
        "pool_cut": list(budget.pool_cut),
        "not_evaluated": {str(level): count for level, count in sorted(budget.not_evaluated.items())},
    }
    more = {"ranked": budget.ranked, "notes": list(outcome.notes)}
    return described | {name: value for name, value in more.items() if value}


def _runs(stored: Stored) -> tuple[Keys, ...]:
    """Runs of held-out prompts, a group each; carried draft state must see all prompts in one go."""
    items = stored.facts.held_out_items
    size = items if stored.spec.draft.state == "run" else stored.spec.search.group_size
    return tuple((run_key(start, min(start + size, items)),) for start in range(0, items, size))


def _covered(runs: Collection[str], items: int) -> bool:
    """Whether stored runs hold every prompt; one that killed its process was stored in halves."""
    return len({item for run in runs for item in range(*run_of(run))}) >= items
