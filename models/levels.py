"""Levels of a job: those of its search, dense first, then cost, held-out check and result."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import CheckConstraint, ForeignKey, Index, SmallInteger, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Created, Id, one_of

LevelKind = Literal["dense", "single", "level", "rank", "cost", "held_out", "result"]
LevelState = Literal["running", "done", "failed", "cancelled"]

SEARCH_KINDS: tuple[LevelKind, ...] = ("dense", "single", "level", "rank")
"""Kinds whose units are configurations; the units of the others are findings."""
EVALUATED_KINDS: tuple[LevelKind, ...] = ("dense", "single", "level")
"""Those of them that are evaluated; of a ``rank`` level's configurations only a figure to order them by is taken."""
CUT_KINDS: tuple[LevelKind, ...] = ("single", "level", "rank")
"""Kinds that ``search.max_seconds`` may end early."""


class Level(Base):
    """A step of a job. At most one is running; the next is made in the transaction that ends it."""

    __tablename__ = "levels"

    id: Mapped[Id] = mapped_column(primary_key=True)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    idx: Mapped[int] = mapped_column(SmallInteger)
    kind: Mapped[LevelKind] = mapped_column(Text)
    depth: Mapped[int | None] = mapped_column(SmallInteger)
    """Blocks that its configurations skip; None where units are no configurations."""
    state: Mapped[LevelState] = mapped_column(Text)
    size: Mapped[int]
    """Units (configurations, held-out runs) that it has in all."""
    done: Mapped[int] = mapped_column(server_default=text("0"))
    """Units stored, as of the last sweep."""
    feasible: Mapped[int] = mapped_column(server_default=text("0"))
    pace: Mapped[dict[str, Any] | None]
    """Seconds a unit: ``median`` and ``p80``."""
    plan: Mapped[dict[str, Any] | None]
    """What its chunks share, such as the points of the held-out check."""
    created_at: Mapped[Created]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("job_id", "idx"),
        Index("uq_levels_job_id_running", "job_id", unique=True, postgresql_where=text("state = 'running'")),
        CheckConstraint(one_of("kind", get_args(LevelKind)), "kind"),
        CheckConstraint(one_of("state", get_args(LevelState)), "state"),
        CheckConstraint(f"({one_of('kind', SEARCH_KINDS)}) = (depth IS NOT NULL)", "depth"),
        CheckConstraint("(state = 'running') = (finished_at IS NULL)", "finished"),
        CheckConstraint("idx >= 0 AND size > 0 AND done BETWEEN 0 AND size", "counts"),
    )
