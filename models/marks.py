"""Marks of forms that may work once: a form that is sent twice, even at the same moment, changes one thing."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, clean, interval


class FormMark(Base):
    """The mark of a form that a user has sent, and which of its requests was the first."""

    __tablename__ = "form_marks"

    user_id: Mapped[Id] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    mark: Mapped[str] = mapped_column(primary_key=True)
    taken_by: Mapped[Id]
    created_at: Mapped[Created]

    __table_args__ = (Index(None, "created_at"),)


def take_mark(session: Session, user_id: str, mark: str, taker: str) -> bool:
    """Whether ``taker``, a new id of the request, is the first to send the form with this mark; the others never are.

    Waits for a transaction that is taking the same mark.
    """
    row = {"user_id": user_id, "mark": clean(mark), "taken_by": taker}
    session.execute(insert(FormMark).values(row).on_conflict_do_nothing())
    # This very request, where it runs again because its commit went through unnoticed.
    return taker == session.scalar(
        select(FormMark.taken_by).where(FormMark.user_id == user_id, FormMark.mark == row["mark"])
    )


def forget_marks(session: Session, older_than_seconds: float) -> int:
    """Remove old marks; returns how many."""
    until = func.clock_timestamp() - interval(older_than_seconds)
    removed = session.execute(delete(FormMark).where(FormMark.created_at < until).returning(FormMark.mark))
    return len(removed.all())
