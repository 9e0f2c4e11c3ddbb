"""Dispatch: which chunks get a message next. A message is only a doorbell, so a lost one is sent again later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from models.chunks import Chunk
from models.claim import CLAIMABLE
from models.settings import ServiceSettings
from models.workers import live_workers


@dataclass(frozen=True)
class Doorbell:
    """A chunk that may be claimed, and the kind of device that may do so (None: any)."""

    chunk_id: str
    device_class: str | None


_FITTING = f"""
    {CLAIMABLE}
    AND (j.device_class IS NULL OR j.device_class = :device_class)
    AND (j.engine IS NULL OR j.engine = ANY(CAST(:engines AS text[])))
"""
_OUTSTANDING = text(f"""
    SELECT count(*) FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id
    WHERE {_FITTING} AND c.dispatched_at > clock_timestamp() - make_interval(secs => :redispatch)
""")
_DISPATCH = text(f"""
    WITH next AS (
        SELECT c.id, j.device_class FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id
        WHERE {_FITTING}
        AND (c.dispatched_at IS NULL OR c.dispatched_at <= clock_timestamp() - make_interval(secs => :redispatch))
        ORDER BY c.priority DESC, c.id LIMIT :room
        FOR NO KEY UPDATE OF c SKIP LOCKED
    )
    UPDATE chunks AS c SET dispatched_at = clock_timestamp(), dispatches = c.dispatches + 1
    FROM next WHERE c.id = next.id
    RETURNING c.id, c.priority, next.device_class
""")


def dispatch(session: Session, settings: ServiceSettings) -> list[Doorbell]:
    """Mark the chunks that get a message now, best first; publish after the commit, and ``undispatch`` what fails.

    Only a few messages for each resting worker are outstanding at any time: priority, pause and cancel are decided when
    a chunk is claimed, and a worker at work claims the next chunk by itself. Without a resting worker there is nobody
    to call.
    """
    busy = set(session.scalars(select(Chunk.owner).where(Chunk.state == "running")))
    live = [worker for worker in live_workers(session, settings.lease_seconds) if worker.owner not in busy]
    limits = {
        "max_crashes": settings.max_crashes,
        "max_errors": settings.max_errors,
        "redispatch": settings.redispatch_seconds,
    }
    doorbells = []
    for device_class, workers in sorted(Counter(worker.device_class for worker in live).items()):
        engines = sorted({worker.engine for worker in live if worker.device_class == device_class})
        fitting = limits | {"device_class": device_class, "engines": engines}
        outstanding = session.scalar(_OUTSTANDING, fitting) or 0
        room = max(0, settings.dispatch_per_worker * workers - outstanding)
        rows = session.execute(_DISPATCH, fitting | {"room": room}).all()
        rows = sorted(rows, key=lambda row: (-row.priority, row.id))
        doorbells += [Doorbell(row.id, row.device_class) for row in rows]
    return doorbells


def undispatch(session: Session, chunk_ids: Sequence[str] | None = None) -> None:
    """Forget messages: those of chunks that could not be published, or all when the broker lost its data (None)."""
    marked = select(Chunk.id).where(Chunk.state == "pending", Chunk.dispatched_at.is_not(None))
    if chunk_ids is not None:
        marked = marked.where(Chunk.id.in_(chunk_ids))
    session.execute(
        update(Chunk)
        .where(Chunk.id.in_(marked.with_for_update(key_share=True, skip_locked=True)))
        .values(dispatched_at=None)
    )


def oldest_pending_seconds(session: Session, settings: ServiceSettings) -> float:
    """Age of the chunk that has waited longest to be claimed; 0.0 when none waits."""
    age = session.scalar(
        text(f"""
            SELECT extract(epoch FROM clock_timestamp() - min(coalesce(c.not_before, c.created_at)))::float8
            FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id WHERE {CLAIMABLE}
        """),
        {"max_crashes": settings.max_crashes, "max_errors": settings.max_errors},
    )
    return float(age or 0.0)
