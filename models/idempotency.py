"""Idempotency keys: a repeated request gets the answer of the first one."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, interval
from models.database import LOCK_TIMEOUT
from models.errors import KeyInUse, KeyReused


class IdempotencyKey(Base):
    """A key of one principal and the job that its first request made."""

    __tablename__ = "idempotency_keys"

    principal: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_hash: Mapped[str]
    # The key is written first, so that a second request waits for it; the job follows in the same transaction.
    job_id: Mapped[Id] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED")
    )
    created_at: Mapped[Created]

    __table_args__ = (Index(None, "job_id"), Index(None, "created_at"))


def take_key(session: Session, principal: str, key: str, request_hash: str, job_id: str) -> str:
    """Bind a key to a job, unless it is bound; returns the id of the job that it is bound to.

    Waits for a transaction that is binding the same key. Raises KeyInUse when that takes too long, and KeyReused when
    the key came with another request.
    """
    row = {"principal": principal, "key": key, "request_hash": request_hash, "job_id": job_id}
    try:
        session.execute(insert(IdempotencyKey).values(row).on_conflict_do_nothing())
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != LOCK_TIMEOUT:
            raise
        raise KeyInUse(
            f"a request with the idempotency key {key!r} is still at work; ask again shortly"
        ) from error
    bound = job_of_key(session, principal, key, request_hash)
    assert bound is not None, "the row is there, or this statement has just written it"
    return bound


def job_of_key(session: Session, principal: str, key: str, request_hash: str) -> str | None:
    """Id of the job that a key is bound to; None for a new key. Raises KeyReused when it came with another request."""
    bound = session.execute(
        select(IdempotencyKey.request_hash, IdempotencyKey.job_id).where(
            IdempotencyKey.principal == principal, IdempotencyKey.key == key
        )
    ).first()
    if bound is None:
        return None
    if bound.request_hash != request_hash:
        raise KeyReused(f"the idempotency key {key!r} came with another request before; use a new key")
    return str(bound.job_id)


def forget_keys(session: Session, older_than_seconds: float) -> int:
    """Remove old keys; returns how many."""
    until = func.clock_timestamp() - interval(older_than_seconds)
    removed = session.execute(
        delete(IdempotencyKey).where(IdempotencyKey.created_at < until).returning(IdempotencyKey.key)
    )
    return len(removed.all())
