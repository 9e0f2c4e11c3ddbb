"""Attempts: what became of every claim; written once, never read by the scheduler."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Created, Id, one_of

Outcome = Literal["succeeded", "released", "error", "crashed", "cancelled"]


class Attempt(Base):
    """A claim that has ended. Its token is the key, so a claim ends once."""

    __tablename__ = "attempts"

    claim_token: Mapped[UUID] = mapped_column(primary_key=True)
    chunk_id: Mapped[Id] = mapped_column(ForeignKey("chunks.id", ondelete="CASCADE"))
    job_id: Mapped[Id]
    attempt: Mapped[int]
    owner: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[Created]
    outcome: Mapped[Outcome] = mapped_column(Text)
    error: Mapped[str | None]

    __table_args__ = (
        CheckConstraint(one_of("outcome", get_args(Outcome)), "outcome"),
        Index(None, "chunk_id"),
        Index(None, "job_id"),
    )
