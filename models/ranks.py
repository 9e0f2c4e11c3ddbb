"""Ranks: figures that say which blocks go first; one row a job and configuration, the first committed value stays."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, SmallInteger, String, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id
from models.chunks import skip_of
from skipmap.skipset import SkipSet


class RankRow(Base):
    """A ranking figure of a configuration; the one with the lowest is taken first. It tells nothing of A and M."""

    __tablename__ = "ranks"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    skip_key: Mapped[str] = mapped_column(String(collation="C"), primary_key=True)
    depth: Mapped[int] = mapped_column(SmallInteger)
    """Of the level that it was taken for; dense is ranked beside the single blocks."""
    value: Mapped[float]
    seconds: Mapped[float]
    """Its share of the seconds that its group took."""
    chunk_id: Mapped[Id]
    claim_token: Mapped[UUID]
    owner: Mapped[str]
    created_at: Mapped[Created]

    __table_args__ = (
        CheckConstraint("depth > 0", "depth"),
        # Nothing could be put in order by another value.
        CheckConstraint("value > '-Infinity' AND value < 'Infinity'", "value"),
    )


def ranks_of(session: Session, job_id: str) -> dict[SkipSet, float]:
    """Every ranking figure that a job has so far."""
    rows = session.execute(select(RankRow.skip_key, RankRow.value).where(RankRow.job_id == job_id))
    return {skip_of(key): value for key, value in rows}
