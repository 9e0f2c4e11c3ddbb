"""Progress of running levels, counted once a sweep, so that watchers read one row and not a million."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, exists, func, or_, select, update
from sqlalchemy.orm import Session

from models.base import interval
from models.chunks import Chunk
from models.evaluations import EvaluationRow
from models.events import emit
from models.findings import Finding
from models.jobs import Job
from models.levels import EVALUATED_KINDS, Level
from models.queries import floors_of, meets
from models.ranks import RankRow
from skipmap.errors import InvalidInput

_QUIET_SECONDS = 600.0


def units_stored(session: Session, level: Level) -> int:
    """Units of a level that are stored."""
    _, mine = _units_of(level)
    return session.scalar(select(func.count()).where(*mine)) or 0


def stirring_levels(session: Session) -> list[str]:
    """Running levels that lack units, and in which something may have been stored since they were last counted.

    Those where nothing was stored for minutes have been counted since.
    """
    since = func.clock_timestamp() - interval(_QUIET_SECONDS)
    stirred = exists().where(Chunk.level_id == Level.id, Chunk.progress_at > since)
    return list(
        session.scalars(
            select(Level.id)
            .where(Level.state == "running", Level.done < Level.size)
            .where(or_(Level.created_at > since, stirred))
            .order_by(Level.id)
        )
    )


def refresh_level(session: Session, level_id: str) -> bool:
    """Note what a running level has stored since the last time; False when it is nothing new.

    Also when somebody else has the level or its job: it is left for the next sweep. Give each a transaction of its own.
    """
    level = session.get(Level, level_id)
    if level is None or units_stored(session, level) == level.done:
        return False
    # Counted before anything is locked, for that may take a while in a large level.
    seen = _look(session, level)
    if not _lock(session, level):
        return False
    _note(session, level, seen)
    emit(session, level.job_id, "progress", idx=level.idx, kind=level.kind, done=seen.done, size=level.size)
    return True


def note_progress(session: Session, level: Level, **more: Any) -> bool:
    """Write what a running level has stored into its row, with other columns, and the job's best so far.

    Returns False when the level has ended.
    """
    return _note(session, level, _look(session, level), **more)


@dataclass(frozen=True)
class _Seen:
    """What a level has stored. ``feasible`` and ``best`` are None where nothing can be feasible."""

    done: int
    pace: dict[str, Any] | None
    feasible: int | None = None
    best: dict[str, Any] | None = None


def _look(session: Session, level: Level) -> _Seen:
    done, pace = units_stored(session, level), _pace(session, level)
    admitted = _admitted(session, level)
    if admitted is None:
        return _Seen(done, pace)
    feasible = session.scalar(select(func.count()).where(*admitted, EvaluationRow.depth == level.depth))
    return _Seen(done, pace, feasible, _best(session, admitted))


def _lock(session: Session, level: Level) -> bool:
    """Lock a running level and its job, in that order; False when somebody else has one of them, or it has ended."""
    mine = (
        select(Level.id).where(Level.id == level.id, Level.state == "running"),
        select(Job.id).where(Job.id == level.job_id),
    )
    return all(
        session.scalar(row.with_for_update(key_share=True, skip_locked=True)) is not None for row in mine
    )


def _note(session: Session, level: Level, seen: _Seen, **more: Any) -> bool:
    values: dict[str, Any] = {"done": seen.done, "pace": seen.pace, **more}
    if seen.feasible is not None:
        values["feasible"] = seen.feasible
    moved = session.execute(
        update(Level).where(Level.id == level.id, Level.state == "running").values(values).returning(Level.id)
    ).first()
    if moved is not None and seen.best is not None:
        session.execute(update(Job).where(Job.id == level.job_id).values(best=seen.best))
    return moved is not None


def _pace(session: Session, level: Level) -> dict[str, Any] | None:
    seconds, mine = _units_of(level)
    quantiles = [func.percentile_cont(part).within_group(seconds) for part in (0.5, 0.8)]
    query = select(*quantiles).where(*mine)
    if level.kind in EVALUATED_KINDS:
        query = query.where(EvaluationRow.cached.is_(False))
    median, p80 = session.execute(query).one()
    return None if median is None else {"median": median, "p80": p80}


def _units_of(level: Level) -> tuple[ColumnElement[float], list[ColumnElement[bool]]]:
    """The column with the seconds that a unit of the level took, and conditions for the rows of its units."""
    if level.kind in EVALUATED_KINDS:
        job, depth = EvaluationRow.job_id == level.job_id, EvaluationRow.depth == level.depth
        return EvaluationRow.seconds.expression, [job.expression, depth.expression]
    if level.kind == "rank":
        job, depth = RankRow.job_id == level.job_id, RankRow.depth == level.depth
        return RankRow.seconds.expression, [job.expression, depth.expression]
    job, kind = Finding.job_id == level.job_id, Finding.kind == level.kind
    return Finding.seconds.expression, [job.expression, kind.expression]


def _admitted(session: Session, level: Level) -> list[ColumnElement[bool]] | None:
    """Conditions for rows of feasible configurations; None where there are none, or where the floors are not known."""
    if level.kind not in EVALUATED_KINDS or not level.depth:
        return None
    job = session.get_one(Job, level.job_id)
    try:
        search = job.parsed_spec.search
    except InvalidInput:
        # Stored by a version that knew other fields. Whoever advances the level says so; counting goes on.
        return None
    floors = floors_of(session, job.id, search)
    if floors is None:
        return None
    depth, owner = EvaluationRow.depth > 0, EvaluationRow.job_id == job.id
    return [owner.expression, depth.expression, meets(floors, search.accept_measure)]


def _best(session: Session, admitted: list[ColumnElement[bool]]) -> dict[str, Any] | None:
    """The feasible configuration that skips most, then the one with the largest metric and accept length."""
    row = session.execute(
        select(EvaluationRow.skip, EvaluationRow.accept_length, EvaluationRow.metric)
        .where(*admitted)
        .order_by(
            EvaluationRow.depth.desc(),
            EvaluationRow.metric.desc(),
            EvaluationRow.accept_length.desc(),
            EvaluationRow.skip,
        )
        .limit(1)
    ).first()
    return None if row is None else dict(row._mapping)
