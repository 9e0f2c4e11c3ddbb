"""What a job is at: its last level and events, and the workers that have chunks of it just now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from models.chunks import Chunk
from models.events import Event
from models.jobs import Job, JobState
from models.levels import Level, LevelKind, LevelState
from skipmap.errors import NotFound


@dataclass(frozen=True)
class AtWork:
    """A worker on a chunk. ``groups``: how many the chunk has; ``progress_at``: when one was stored last."""

    owner: str
    kind: LevelKind
    groups: int
    attempt: int
    claimed_at: datetime
    progress_at: datetime | None


@dataclass(frozen=True)
class Standing:
    """How far a job is. ``idx``, ``level_state``, ``done`` and ``size``: of its last level."""

    state: JobState
    idx: int
    level_state: LevelState
    done: int
    size: int


def standing_of(session: Session, job_id: str) -> Standing:
    """How far a job is, in one statement that reads nothing large; raises NotFound."""
    row = session.execute(
        select(Job.state, Level.idx, Level.state, Level.done, Level.size)
        .join(Level, Level.job_id == Job.id)
        .where(Job.id == job_id)
        .order_by(Level.idx.desc())
        .limit(1)
    ).first()
    if row is None:
        raise NotFound(f"no job {job_id!r}")
    return Standing(*row)


def last_events(session: Session, job_id: str, limit: int) -> Sequence[Event]:
    """The last events of a job, newest first; not those of progress, which come every second or so."""
    return session.scalars(
        select(Event)
        .where(Event.job_id == job_id, Event.kind != "progress")
        .order_by(Event.seq.desc())
        .limit(limit)
    ).all()


def at_work(session: Session, job_id: str) -> list[AtWork]:
    """Workers on chunks of a job, by name."""
    rows = session.execute(
        select(
            Chunk.owner,
            Chunk.kind,
            func.jsonb_array_length(Chunk.groups),
            Chunk.attempt,
            Chunk.claimed_at,
            Chunk.progress_at,
        )
        # Written out, so that the index on what runs is used.
        .where(Chunk.state == text("'running'"), Chunk.job_id == job_id)
        .order_by(Chunk.owner)
    )
    return [AtWork(*row) for row in rows]
