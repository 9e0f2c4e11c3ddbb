"""Advance: when all chunks of a level are closed, end it and make the next one, exactly once.

Whoever closes a chunk asks after that commit, so the last one always sees all chunks closed; the sweep asks for those
who died in between. The level's row lock and the second look under it let one of several through.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from sqlalchemy import exists, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from models.base import clean
from models.chunks import OPEN, Chunk, skip_key
from models.database import Database
from models.evaluations import EvaluationRow
from models.events import emit
from models.expand import End, NextLevel, next_level
from models.failpoints import reach
from models.findings import finding
from models.jobs import Job
from models.levels import Level, LevelState
from models.opening import open_level
from models.progress import note_progress
from models.stored import stored_of
from skipmap.skipset import SkipSet


class Advance(Enum):
    """What ``try_advance`` did."""

    OPEN = "the level has open chunks"
    LEFT = "the level has ended before, or its job is not running"
    NEXT = "the level is done and the next one is there"
    ENDED = "the job has succeeded"
    FAILED = "the job has failed"


def try_advance(database: Database, level_id: str, *, waits: bool = True) -> Advance:
    """End a level whose chunks are all closed and make what follows; does nothing where there is nothing to do.

    ``waits=False`` leaves a level that another process is advancing; only those who will come again may do so.
    """
    if database.transaction(has_open_chunk, level_id):
        return Advance.OPEN
    return database.transaction(advance, level_id, database.chunk_seconds, waits=waits)


def has_open_chunk(session: Session, level_id: str) -> bool:
    """Whether a chunk of the level is pending or running."""
    return bool(session.scalar(select(exists().where(Chunk.level_id == level_id, Chunk.state.in_(OPEN)))))


def advance(session: Session, level_id: str, chunk_seconds: float, *, waits: bool = True) -> Advance:
    """The transaction of ``try_advance``: lock the level, look again, write everything or nothing."""
    level = session.scalars(
        select(Level).where(Level.id == level_id).with_for_update(key_share=True, skip_locked=not waits)
    ).first()
    if level is None or level.state != "running":
        return Advance.LEFT
    # A statement of its own: its snapshot shows what was committed while this one waited for the lock.
    if has_open_chunk(session, level_id):
        return Advance.OPEN
    job = session.scalars(select(Job).where(Job.id == level.job_id).with_for_update(key_share=True)).one()
    if job.state != "running":
        return Advance.LEFT
    failed = session.scalars(
        select(Chunk).where(Chunk.level_id == level_id, Chunk.state == "failed").order_by(Chunk.seq).limit(1)
    ).first()
    if failed is not None:
        return _fail(session, job, level, failed.last_error or "its workers died")
    while True:
        try:
            step = next_level(stored_of(session, job))
            _check_progress(step, level)
        except DBAPIError:
            raise
        except Exception as error:
            # The rows will be the same next time, and so will be what is wrong with them.
            return _fail(session, job, level, str(error) or type(error).__name__)
        _end_level(session, level, "done")
        reach("advance.inside")
        if isinstance(step, End):
            return _succeed(session, job)
        level, waits = open_level(session, job, level.idx + 1, step, chunk_seconds)
        if waits:
            return Advance.NEXT


def _check_progress(step: NextLevel | End, level: Level) -> None:
    if isinstance(step, NextLevel) and (step.kind, step.depth) == (level.kind, level.depth):
        raise RuntimeError(f"level {level.idx} ({level.kind}) is closed and yet lacks rows")


def _end_level(session: Session, level: Level, state: LevelState) -> None:
    note_progress(session, level, state=state, finished_at=func.clock_timestamp())
    emit(session, level.job_id, "level", idx=level.idx, kind=level.kind, depth=level.depth, state=state)


def _succeed(session: Session, job: Job) -> Advance:
    values = {"state": "succeeded", "finished_at": func.clock_timestamp(), "best": _selected(session, job)}
    session.execute(update(Job).where(Job.id == job.id, Job.state == "running").values(values))
    emit(session, job.id, "job", state="succeeded")
    return Advance.ENDED


def _selected(session: Session, job: Job) -> dict[str, Any] | None:
    """What the result selects, which is known to cost least; while the job ran, the deepest set stood for it."""
    document = (finding(session, job.id, "result") or {}).get("document", {})
    selected = SkipSet.of(document.get("selected") or ())
    row = session.get(EvaluationRow, (job.id, skip_key(selected))) if selected.blocks else None
    return (
        None if row is None else {"skip": row.skip, "accept_length": row.accept_length, "metric": row.metric}
    )


def _fail(session: Session, job: Job, level: Level, error: str) -> Advance:
    error = clean(error)
    _end_level(session, level, "failed")
    session.execute(
        update(Job)
        .where(Job.id == job.id, Job.state == "running")
        .values(state="failed", error=error, finished_at=func.clock_timestamp())
    )
    emit(session, job.id, "job", state="failed", error=error)
    return Advance.FAILED
