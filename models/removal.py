"""Removal of jobs that have ended, also of large ones: what a job has stored goes in short transactions, its row last.

A job whose removal has begun is ``cancelled``, whatever it was before: so nobody retries it or takes it for whole. When
a removal breaks off, the next one goes on.
"""

from __future__ import annotations

import time

from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from models.attempts import Attempt
from models.chunks import Chunk
from models.database import Database
from models.errors import Conflict
from models.evaluations import EvaluationRow
from models.events import Event, emit
from models.findings import Finding
from models.jobs import ENDED, Job
from models.levels import Level
from models.ranks import RankRow
from skipmap.errors import NotFound

Stored = type[EvaluationRow] | type[RankRow] | type[Finding] | type[Attempt] | type[Chunk] | type[Event]

_ROWS_AT_A_TIME: dict[Stored, int] = {
    Finding: 50,
    EvaluationRow: 500,
    RankRow: 5000,
    Attempt: 5000,
    Chunk: 1000,
    Event: 5000,
}


def empty_job(database: Database, job_id: str, seconds: float | None = None) -> bool:
    """Remove what a job that has ended has stored; then ``delete_job`` removes the rest at once.

    Returns False when that takes longer than ``seconds``: call again. Raises Conflict and NotFound.
    """
    until = None if seconds is None else time.monotonic() + seconds
    database.transaction(_begin, job_id)
    for table, most in _ROWS_AT_A_TIME.items():
        while database.transaction(_remove, table, job_id, most) == most:
            if until is not None and time.monotonic() > until:
                return False
    return True


def _begin(session: Session, job_id: str) -> None:
    last = session.scalars(
        select(Level)
        .where(Level.job_id == job_id)
        .order_by(Level.idx.desc())
        .limit(1)
        .with_for_update(key_share=True)
    ).first()
    state = session.scalar(select(Job.state).where(Job.id == job_id).with_for_update(key_share=True))
    if state is None or last is None:
        raise NotFound(f"no job {job_id!r}")
    if state not in ENDED:
        raise Conflict(f"job {job_id} is {state}; cancel it first", state)
    if state == "cancelled":
        return
    session.execute(update(Level).where(Level.id == last.id).values(state="cancelled"))
    session.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(state="cancelled", cancel_requested_at=func.clock_timestamp())
    )
    emit(session, job_id, "job", state="cancelled")


def _remove(session: Session, table: Stored, job_id: str, most: int) -> int:
    key = table.__table__.primary_key
    some = select(*key).where(table.job_id == job_id).limit(most)
    removed = session.execute(delete(table).where(tuple_(*key).in_(some)).returning(table.job_id))
    return len(removed.all())
