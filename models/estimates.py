"""Estimates: what a search will have to evaluate at most, and how long earlier jobs took for the like."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Row, Text, cast, exists, select
from sqlalchemy.orm import Session

from models.jobs import Job
from models.later_steps import LaterPace, Span, later_pace
from models.levels import Level
from skipmap.profiling.search import strategy_of
from skipmap.profiling.strategies.base import Strategy
from skipmap.spec import SearchSpec

_JOBS_LOOKED_AT = 5
_TIMED = ("single", "level")
"""Kinds of levels whose units are sparse configurations."""


@dataclass(frozen=True)
class LevelPlan:
    """A level at most: ``configurations`` that the strategy asks for, and how many are ``planned``; None: not known.

    What is known of levels from 2 on holds for a pool that is as large as it may become. ``ranked``: ranking figures
    that are taken before it.
    """

    level: int
    configurations: int | None
    planned: int | None
    ranked: int = 0

    @property
    def cut(self) -> int:
        """Configurations that the budget leaves out."""
        if self.configurations is None or self.planned is None:
            return 0
        return self.configurations - self.planned


@dataclass(frozen=True)
class Plan:
    """What a search evaluates at most. ``pool``: layers that may be combined; ``num_layers`` of the target, or None.

    ``pool`` is None where it depends on the number of layers, and that is not known.
    """

    num_layers: int | None
    pool: int | None
    levels: tuple[LevelPlan, ...]

    @property
    def most(self) -> int | None:
        """Configurations in all, if that is known."""
        planned = [level.planned for level in self.levels]
        return None if None in planned else sum(count for count in planned if count is not None)

    @property
    def ranked(self) -> int:
        """Ranking figures in all."""
        return sum(level.ranked for level in self.levels)


def plan_of(search: SearchSpec, num_layers: int | None, pool: int | None = None) -> Plan:
    """The levels of a search, as ``skipmap.profiling.search`` makes them when none of them is the last before its time.

    ``pool``: layers that are combined, once that is known.
    """
    strategy = strategy_of(search.strategy)
    if num_layers is None:
        return _plan_of_any_target(search, strategy)
    combined = strategy.pool_size(search, num_layers) if pool is None else pool
    levels = [LevelPlan(0, 1, 1)]
    left = None if search.max_evaluations is None else search.max_evaluations - 1
    # Single layers come first, however many of them are combined.
    for level in range(1, max(1, min(search.max_depth, combined, num_layers - 1)) + 1):
        there = strategy.level_size(search, num_layers, combined, level)
        planned = there if left is None else min(there, left)
        levels.append(LevelPlan(level, there, planned, strategy.rank_size(search, num_layers, level)))
        if left is not None:
            # A level that is cut is the last one.
            left = left - planned if planned == there else 0
    return Plan(num_layers, combined, tuple(levels))


def _plan_of_any_target(search: SearchSpec, strategy: Strategy) -> Plan:
    """What can be told before the number of layers is known: sets of a pool that the spec bounds, and no more."""
    levels = [LevelPlan(0, 1, 1), LevelPlan(1, None, None)]
    if not strategy.has_pool:
        later = [LevelPlan(level, None, None) for level in range(2, search.max_depth + 1)]
        return Plan(None, None, (*levels, *later))
    pool = search.max_pool
    for level in range(2, min(search.max_depth, pool) + 1):
        there = strategy.level_size(search, pool, pool, level)
        # It is not known what the single layers leave of max_evaluations.
        levels.append(LevelPlan(level, there, None if search.max_evaluations is not None else there))
    return Plan(None, pool, tuple(levels))


@dataclass(frozen=True)
class Pace:
    """How fast earlier jobs of a target and a draft method went, on workers of one device class.

    ``median``, and ``p80`` of the slowest job: seconds a configuration took over ``prompts`` calibration prompts; None
    where it is not known how many there were. ``later``: what came after their search.
    """

    jobs: int
    device_class: str | None
    median: float
    p80: float
    prompts: int | None
    later: LaterPace = field(default_factory=LaterPace)

    def seconds(self, configurations: int, prompts: int | None) -> Span:
        """Likely and long time of one worker for so many configurations over so many prompts.

        On a CPU time grows with the prompts. On other devices fewer prompts need not be faster, for they share
        forwards.
        """
        factor = 1.0
        if prompts is not None and self.prompts:
            factor = prompts / self.prompts
            if self.device_class != "cpu":
                factor = max(factor, 1.0)
        return configurations * self.median * factor, configurations * self.p80 * factor


def layers_of(session: Session, target: str) -> int | None:
    """Number of layers of a target, as the last job of it found; None without one."""
    found = session.scalar(
        select(cast(Job.facts["num_layers"], Text))
        .where(Job.target == target, Job.facts.is_not(None))
        .order_by(Job.id.desc())
        .limit(1)
    )
    return None if found is None else int(found)


def pace_of(session: Session, target: str, draft: str, device_class: str | None = None) -> Pace | None:
    """How fast the last jobs of a target and a draft method went; None where nothing is known yet.

    Without a device class it is that of the last of them: times of different devices say nothing of each other.
    """
    timed = exists().where(Level.job_id == Job.id, Level.kind.in_(_TIMED), Level.pace.is_not(None))
    recent = (
        select(Job.id, Job.device_class, Job.facts["description"]["data"]["n_calibration"].label("prompts"))
        .where(Job.target == target, Job.draft == draft, timed)
        .order_by(Job.id.desc())
        .limit(_JOBS_LOOKED_AT)
    )
    if device_class is not None:
        recent = recent.where(Job.device_class == device_class)
    jobs = session.execute(recent).all()
    alike = [job for job in jobs if job.device_class == jobs[0].device_class]
    if not alike:
        return None
    ids = [job.id for job in alike]
    return replace(_joined(alike, _paces(session, ids)), later=later_pace(session, ids))


def _paces(session: Session, job_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of each job the pace of its largest level."""
    rows = session.execute(
        select(Level.job_id, Level.pace)
        .where(Level.job_id.in_(job_ids), Level.kind.in_(_TIMED), Level.pace.is_not(None))
        .order_by(Level.job_id, Level.done, Level.idx)
    )
    return {row.job_id: row.pace for row in rows}


def _joined(
    jobs: Sequence[Row[tuple[str, str | None, int | None]]], paces: dict[str, dict[str, float]]
) -> Pace:
    counts = [job.prompts for job in jobs if job.prompts]
    usual = statistics.median_high(counts) if len(counts) == len(jobs) else None
    # Each as if it had had as many prompts as is usual.
    scales = [1.0 if usual is None else usual / job.prompts for job in jobs]
    pairs = list(zip(jobs, scales, strict=True))
    return Pace(
        jobs=len(jobs),
        device_class=jobs[0].device_class,
        median=statistics.median(paces[job.id]["median"] * scale for job, scale in pairs),
        p80=max(paces[job.id]["p80"] * scale for job, scale in pairs),
        prompts=usual,
    )
