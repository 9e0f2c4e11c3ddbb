"""Control: what a user may do to a job. Locks the job alone, then its chunks without waiting for any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session

from models.chunks import Chunk
from models.errors import Conflict
from models.events import emit
from models.jobs import ENDED, Job, JobState
from models.levels import Level
from skipmap.errors import NotFound


def cancel(session: Session, job_id: str) -> Job:
    """Stop a job: nothing more is claimed, and workers stop at their next forward.

    Cancelling twice changes nothing. Raises Conflict when the job has ended otherwise, and NotFound.
    """
    states: tuple[JobState, ...] = ("running", "pausing", "paused")
    if _move(session, job_id, states, "cancelling", cancel_requested_at=func.clock_timestamp()):
        close_pending(session, job_id)
        return _job(session, job_id)
    job = _job(session, job_id)
    if job.state not in ("cancelling", "cancelled"):
        raise Conflict(f"job {job_id} has {job.state}; there is nothing to cancel", job.state)
    return job


def pause(session: Session, job_id: str) -> Job:
    """Let workers give their chunks back, then rest. Pausing twice changes nothing. Raises Conflict and NotFound."""
    if _move(session, job_id, ("running",), "pausing"):
        return _job(session, job_id)
    job = _job(session, job_id)
    if job.state not in ("pausing", "paused"):
        raise Conflict(f"job {job_id} is {job.state}; only a running job can be paused", job.state)
    return job


def resume(session: Session, job_id: str) -> Job:
    """Go on after a pause. Resuming a running job changes nothing. Raises Conflict and NotFound."""
    if _move(session, job_id, ("pausing", "paused"), "running"):
        _forget_messages(session, job_id)
        return _job(session, job_id)
    job = _job(session, job_id)
    if job.state != "running":
        raise Conflict(f"job {job_id} is {job.state}; only a paused job can be resumed", job.state)
    return job


def retry(session: Session, job_id: str) -> Job:
    """Try the failed chunks of a failed job again; what is stored stays. Raises Conflict and NotFound."""
    level = session.scalars(
        select(Level).where(Level.job_id == job_id, Level.state == "failed").with_for_update(key_share=True)
    ).first()
    if level is None or not _move(session, job_id, ("failed",), "running", finished_at=None, error=None):
        job = _job(session, job_id)
        raise Conflict(f"job {job_id} is {job.state}; only a failed job can be retried", job.state)
    session.execute(update(Level).where(Level.id == level.id).values(state="running", finished_at=None))
    session.execute(
        update(Chunk)
        .where(Chunk.level_id == level.id, Chunk.state == "failed")
        .values(
            state="pending",
            attempt=0,
            crash_count=0,
            error_count=0,
            permanent=False,
            not_before=None,
            dispatched_at=None,
            finished_at=None,
        )
    )
    about = {"idx": level.idx, "kind": level.kind, "depth": level.depth}
    emit(session, job_id, "level", **about, state="running", size=level.size)
    return _job(session, job_id)


def set_priority(session: Session, job_id: str, priority: int) -> Job:
    """Change which job comes first, 9 before 0; raises Conflict when the job has ended, and NotFound."""
    done = session.execute(
        update(Job)
        .where(Job.id == job_id, Job.state.not_in(ENDED))
        .values(priority=priority)
        .returning(Job.id)
    ).first()
    if done is None:
        job = _job(session, job_id)
        raise Conflict(f"job {job_id} has {job.state}", job.state)
    session.execute(update(Chunk).where(Chunk.id.in_(_free(job_id))).values(priority=priority))
    emit(session, job_id, "job", priority=priority)
    return _job(session, job_id)


def delete_job(session: Session, job_id: str) -> None:
    """Remove a job that has ended, with all that it stored; the cache keeps its figures. Raises Conflict, NotFound.

    This is one statement: ``removal.empty_job`` comes first where a job may be large.
    """
    removed = session.execute(delete(Job).where(Job.id == job_id, Job.state.in_(ENDED)).returning(Job.id))
    if removed.first() is None:
        job = _job(session, job_id)
        raise Conflict(f"job {job_id} is {job.state}; cancel it first", job.state)


def close_pending(session: Session, job_id: str) -> None:
    """Cancel the pending chunks of a cancelled job, but for those that are being claimed just now."""
    session.execute(
        update(Chunk)
        .where(Chunk.id.in_(_free(job_id)))
        .values(state="cancelled", finished_at=func.clock_timestamp())
    )


def _free(job_id: str) -> Select[str]:
    return (
        select(Chunk.id)
        .where(Chunk.job_id == job_id, Chunk.state == "pending")
        .with_for_update(key_share=True, skip_locked=True)
    )


def _forget_messages(session: Session, job_id: str) -> None:
    session.execute(update(Chunk).where(Chunk.id.in_(_free(job_id))).values(dispatched_at=None))


def _move(session: Session, job_id: str, old: Sequence[JobState], new: JobState, **values: Any) -> bool:
    """The conditional update of a job's state; False when the job was in none of the old states."""
    moved = session.execute(
        update(Job).where(Job.id == job_id, Job.state.in_(old)).values(state=new, **values).returning(Job.id)
    ).first()
    if moved is not None:
        emit(session, job_id, "job", state=new)
    return moved is not None


def _job(session: Session, job_id: str) -> Job:
    job = session.scalars(
        select(Job).where(Job.id == job_id).execution_options(populate_existing=True)
    ).first()
    if job is None:
        raise NotFound(f"no job {job_id!r}")
    return job
