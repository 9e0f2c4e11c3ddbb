"""Events of a job, numbered so that they can be tailed: number n is committed before n + 1 is given out.

The number is taken from the job's row, which stays locked until the transaction commits. So "greater than the last one
seen" misses nothing, and the numbers of a job have no gaps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import BigInteger, ForeignKey, Text, func, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id

EventKind = Literal["job", "level", "chunk", "progress"]


class Event(Base):
    """Something that a watcher of a job may want to see."""

    __tablename__ = "events"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    kind: Mapped[str]
    payload: Mapped[dict[str, Any]]
    created_at: Mapped[Created]


_EMIT = text("""
    WITH job AS (
        UPDATE jobs SET last_event = last_event + 1, updated_at = clock_timestamp()
        WHERE id = :job_id RETURNING id, last_event
    )
    INSERT INTO events (job_id, seq, kind, payload) SELECT id, last_event, :kind, CAST(:payload AS jsonb) FROM job
""")


def emit(session: Session, job_id: str, kind: EventKind, /, **payload: Any) -> None:
    """Append an event. Locks the job's row, so it comes last in a transaction (chunk, level, job)."""
    session.execute(_EMIT, {"job_id": job_id, "kind": kind, "payload": json.dumps(payload)})


def tail(session: Session, seen: Mapping[str, int], limit: int = 500) -> Sequence[Event]:
    """Events of the jobs named, after the last one seen of each; in order within a job, ``limit`` at most."""
    jobs = func.unnest(literal(list(seen), ARRAY(Text)), literal(list(seen.values()), ARRAY(BigInteger)))
    last = jobs.table_valued("job_id", "seq").render_derived("last")
    newer = (
        select(Event)
        .join(last, (Event.job_id == last.c.job_id) & (Event.seq > last.c.seq))
        .order_by(Event.job_id, Event.seq)
        .limit(limit)
    )
    return session.scalars(newer).all()
