"""Findings: what a job found beside evaluations: measured cost, held-out runs, the result document."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from sqlalchemy import JSON, CheckConstraint, ForeignKey, String, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, one_of

FindingKind = Literal["cost", "held_out", "result"]
WHOLE = "all"
"""Key of a finding that its level has only one of."""


class Finding(Base):
    """Payload of one unit of a level that evaluates no configurations; the first committed value stays."""

    __tablename__ = "findings"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[FindingKind] = mapped_column(Text, primary_key=True)
    key: Mapped[str] = mapped_column(String(collation="C"), primary_key=True)
    payload: Mapped[dict[str, Any]] = mapped_column(JSON)
    seconds: Mapped[float]
    chunk_id: Mapped[Id | None]
    claim_token: Mapped[UUID | None]
    owner: Mapped[str | None]
    created_at: Mapped[Created]

    __table_args__ = (CheckConstraint(one_of("kind", ("cost", "held_out", "result")), "kind"),)


def finding(session: Session, job_id: str, kind: FindingKind, key: str = WHOLE) -> dict[str, Any] | None:
    """One payload, or None when it is not stored yet."""
    row = session.get(Finding, (job_id, kind, key))
    return None if row is None else row.payload


def findings_of(session: Session, job_id: str, kind: FindingKind) -> dict[str, dict[str, Any]]:
    """All payloads of a kind by key."""
    rows = session.execute(
        select(Finding.key, Finding.payload).where(Finding.job_id == job_id, Finding.kind == kind)
    )
    return {row.key: row.payload for row in rows}
