"""Audit: who changed what, appended in the transaction of the change, and read newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Index, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, clean, is_id, new_id
from models.names import ids_of
from models.users import User


class AuditEntry(Base):
    """One action. Users and things are named by id and not by reference, for the entry outlives them."""

    __tablename__ = "audit"

    id: Mapped[Id] = mapped_column(primary_key=True)
    actor: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    detail: Mapped[dict[str, Any]]
    request_id: Mapped[str | None]
    created_at: Mapped[Created]

    __table_args__ = (
        Index(None, "actor", "id"),
        Index(None, "action", "id"),
        Index(None, "subject", "id"),
    )


@dataclass(frozen=True)
class AuditLine:
    """An entry as people read it; ``actor_name`` is None when the actor is no user here."""

    entry: AuditEntry
    actor_name: str | None


def record(
    session: Session, actor: str, action: str, subject: str, request_id: str | None = None, **detail: Any
) -> None:
    """Append an entry."""
    session.add(
        AuditEntry(
            id=new_id(), actor=actor, action=action, subject=subject, detail=detail, request_id=request_id
        )
    )


def list_audit(
    session: Session,
    *,
    limit: int,
    before: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    subject: str | None = None,
) -> Sequence[AuditLine]:
    """A page of entries, newest first; ``before``: id of the last one of the page before.

    ``actor``: id or name of a user; ``action`` as it was recorded; ``subject`` so too, or what it is called.
    """
    query = (
        select(AuditEntry, User.name)
        .outerjoin(User, User.id == AuditEntry.actor)
        .order_by(AuditEntry.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(AuditEntry.id < before)
    if actor is not None:
        query = query.where(AuditEntry.actor == _actor_id(session, clean(actor)))
    if action is not None:
        query = query.where(AuditEntry.action == clean(action))
    if subject is not None:
        asked = clean(subject)
        query = query.where(AuditEntry.subject.in_([asked, *ids_of(session, asked)]))
    return [AuditLine(entry, name) for entry, name in session.execute(query)]


def _actor_id(session: Session, actor: str) -> str:
    if is_id(actor):
        return actor
    return session.scalar(select(User.id).where(User.name == actor)) or actor
