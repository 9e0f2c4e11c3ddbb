"""Crashes: leases that ran out, the remains of an earlier process, workers that fail on everything."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import TextClause, select, text, update
from sqlalchemy.orm import Session

from models.chunks import Chunk
from models.ending import BACKOFF, ending
from models.events import emit
from models.settings import ServiceSettings
from models.workers import Worker, quarantine


def _crash(where: str, error: str, *, waits: bool) -> TextClause:
    change = (
        f"state = 'pending', crash_count = c.crash_count + 1, last_owner = c.owner, last_error = {error}, "
        f"dispatched_at = NULL, not_before = {BACKOFF.format(count='c.crash_count')}"
    )
    return ending("crashed", where, change, waits=waits)


# For one lease after the server's start, or after this process was cut off, silence proves nothing about workers.
_EXPIRE = _crash(
    "c.lease_expires_at < clock_timestamp() AND clock_timestamp() > "
    "greatest(pg_postmaster_start_time(), :connected_at) + make_interval(secs => :lease)",
    "'worker ' || c.owner || ' gave no sign of life in time'",
    waits=False,
)
_RECLAIM = _crash("c.owner = :owner", "'the process of worker ' || c.owner || ' ended'", waits=True)

_STREAK = text("""
    UPDATE workers SET crashes_in_a_row = crashes_in_a_row + 1, last_crashed_chunk = :chunk_id
    WHERE owner = :owner AND last_crashed_chunk IS DISTINCT FROM :chunk_id
""")


def expire_leases(session: Session, settings: ServiceSettings, connected_at: datetime) -> int:
    """Take chunks back whose lease is over; returns how many.

    ``connected_at``: the database's time when this process last came back from being cut off.
    """
    return _take_back(session, settings, _EXPIRE, connected_at=connected_at, lease=settings.lease_seconds)


def reclaim(session: Session, settings: ServiceSettings, owner: str) -> int:
    """A new process takes back at once what the one before it left; only where that one is surely gone."""
    return _take_back(session, settings, _RECLAIM, owner=owner)


def _take_back(session: Session, settings: ServiceSettings, statement: TextClause, **values: object) -> int:
    backoff = {"backoff": settings.backoff_seconds, "backoff_cap": settings.backoff_cap_seconds}
    # Jobs in ascending order, so that two of these transactions do not wait for each other crosswise.
    rows = sorted(session.execute(statement, values | backoff), key=lambda row: (row.job_id, row.chunk_id))
    for owner in sorted({row.owner for row in rows}):
        for row in rows:
            if row.owner == owner:
                session.execute(_STREAK, {"owner": owner, "chunk_id": row.chunk_id})
        _set_aside(session, settings, owner)
    for row in rows:
        emit(session, row.job_id, "chunk", chunk=row.chunk_id, what="crashed", owner=row.owner)
    return len(rows)


def _set_aside(session: Session, settings: ServiceSettings, owner: str) -> None:
    """Quarantine a worker that crashes on one chunk after the other; its crashes are not the chunks' fault."""
    in_a_row = session.scalar(select(Worker.crashes_in_a_row).where(Worker.owner == owner)) or 0
    if in_a_row < settings.quarantine_crashes:
        return
    quarantine(session, owner, settings.quarantine_seconds)
    session.execute(
        update(Worker).where(Worker.owner == owner).values(crashes_in_a_row=0, last_crashed_chunk=None)
    )
    charged = (
        select(Chunk.id)
        .where(Chunk.state == "pending", Chunk.last_owner == owner, Chunk.crash_count > 0)
        .with_for_update(key_share=True, skip_locked=True)
    )
    session.execute(
        update(Chunk)
        .where(Chunk.id.in_(charged))
        .values(
            crash_count=Chunk.crash_count - 1,
            attempt=Chunk.attempt - 1,
            last_owner=None,
            not_before=None,
        )
    )
