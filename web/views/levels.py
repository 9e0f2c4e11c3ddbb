"""Levels of a job as rows: those that were reached, and those that may still come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from models.estimates import plan_of
from models.levels import EVALUATED_KINDS, LevelKind
from skipmap.client.documents import JobView, LevelView, Progress
from skipmap.spec import SearchSpec
from web.filters import duration
from web.views.words import level_meaning, level_title

_WITH_FEASIBLE = ("single", "level")
_LAST: tuple[LevelKind, ...] = ("cost", "held_out", "result")


@dataclass(frozen=True)
class LevelRow:
    """One level. A level that has not begun is ``pending``; its ``total`` is the most that it can have.

    ``feasible`` is None where nothing can be; ``rate``: units a second.
    """

    title: str
    meaning: str
    kind: str
    depth: int | None
    state: str
    done: int = 0
    total: int | None = None
    feasible: int | None = None
    started: datetime | None = None
    finished: datetime | None = None
    seconds: float | None = None
    rate: float | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it has not begun."""
        return self.state == "pending"

    @property
    def has_configurations(self) -> bool:
        """Whether it evaluates configurations, and has begun."""
        return self.kind in EVALUATED_KINDS and not self.is_pending


def level_rows(
    job: JobView, search: SearchSpec | None, num_layers: int | None, pool: Sequence[int] | None
) -> list[LevelRow]:
    """All levels in order. ``pool``: None while it is not known, and for a search that has none."""
    rows = [_reached(level, job.progress, job.strategy) for level in job.levels]
    if job.state in ("running", "pausing", "paused"):
        rows += _to_come(job, search, num_layers, pool)
    return rows


def time_left(progress: Progress) -> str | None:
    """How long the running level will take, as a range; None when it is not known."""
    if progress.eta_seconds is None:
        return None
    likely, late = (duration(seconds) for seconds in progress.eta_seconds)
    return likely if likely == late else f"{likely} to {late}"


def _reached(level: LevelView, progress: Progress, strategy: str) -> LevelRow:
    seconds = rate = None
    if level.finished_at is not None:
        seconds = (level.finished_at - level.created_at).total_seconds()
        rate = level.done / seconds if seconds > 0 and level.done else None
    elif level.state == "running":
        rate = progress.rate
    return LevelRow(
        title=level_title(level.kind, level.depth),
        meaning=level_meaning(level.kind, strategy),
        kind=level.kind,
        depth=level.depth,
        state=level.state,
        done=level.done,
        total=level.total,
        feasible=level.feasible if level.kind in _WITH_FEASIBLE else None,
        started=level.created_at,
        finished=level.finished_at,
        seconds=seconds,
        rate=rate,
    )


def _to_come(
    job: JobView, search: SearchSpec | None, num_layers: int | None, pool: Sequence[int] | None
) -> list[LevelRow]:
    reached = {(level.kind, level.depth) for level in job.levels}
    coming: list[tuple[LevelKind, int | None, int | None]] = []
    # What the search has found decides whether there are more levels; once it has ended there are none.
    if search is not None and job.outcome is None:
        plan = plan_of(search, num_layers, None if pool is None else len(pool))
        for level in plan.levels[1:]:
            if level.ranked:
                coming.append(("rank", level.level, level.ranked))
            if level.planned != 0:
                at_most = level.configurations if level.planned is None else level.planned
                coming.append(("single" if level.level == 1 else "level", level.level, at_most))
    coming += [(kind, None, None) for kind in _LAST]
    return [
        LevelRow(
            level_title(kind, depth), level_meaning(kind, job.strategy), kind, depth, "pending", total=total
        )
        for kind, depth, total in coming
        if (kind, depth) not in reached
    ]
