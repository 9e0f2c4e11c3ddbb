"""Audit: who changed what, appended in the transaction of the change."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, new_id


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

    __table_args__ = (Index(None, "subject", "id"),)


def record(
    session: Session, actor: str, action: str, subject: str, request_id: str | None = None, **detail: Any
) -> None:
    """Append an entry."""
    session.add(
        AuditEntry(
            id=new_id(), actor=actor, action=action, subject=subject, detail=detail, request_id=request_id
        )
    )
