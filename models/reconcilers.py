"""Reconcilers: which processes sweep, and when they last did."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, interval

FORGOTTEN_SECONDS = 3600.0


class Reconciler(Base):
    """A process that sweeps; its row goes when it has been silent for long."""

    __tablename__ = "reconcilers"

    name: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[Created]
    swept_at: Mapped[datetime]


def note_sweep(session: Session, name: str) -> None:
    """Write down that a reconciler has swept just now."""
    now = func.clock_timestamp()
    session.execute(
        insert(Reconciler)
        .values(name=name, swept_at=now)
        .on_conflict_do_update(index_elements=["name"], set_={"swept_at": now})
    )
    session.execute(delete(Reconciler).where(Reconciler.swept_at < now - interval(FORGOTTEN_SECONDS)))


def newest_age(session: Session) -> float | None:
    """Seconds since any reconciler swept; None when none ever did."""
    age = session.scalar(
        select(func.extract("epoch", func.clock_timestamp() - func.max(Reconciler.swept_at)))
    )
    return None if age is None else float(age)
