"""Workers: who may claim chunks. One row a slot, which is a GPU or a CPU place; its name is the ``owner`` of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import false, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, interval


class Worker(Base):
    """A slot that has worked here; the row outlives its processes."""

    __tablename__ = "workers"

    owner: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    boot_id: Mapped[str]
    """Of the process: tells two with the same pid apart."""
    device_class: Mapped[str]
    engine: Mapped[str]
    version: Mapped[str]
    draining: Mapped[bool] = mapped_column(server_default=false())
    quarantined_until: Mapped[datetime | None]
    crashes_in_a_row: Mapped[int] = mapped_column(server_default=text("0"))
    """Crashes on different chunks since it last finished one."""
    last_crashed_chunk: Mapped[Id | None]
    started_at: Mapped[Created]
    seen_at: Mapped[Created]


@dataclass(frozen=True)
class Slot:
    """What a worker process says of itself. ``engine``: version of its evaluations."""

    owner: str
    host: str
    pid: int
    boot_id: str
    device_class: str
    engine: str
    version: str


_now = func.clock_timestamp()
_LATELY_SECONDS = 60


def register(session: Session, slot: Slot) -> None:
    """A process takes over a slot; an earlier process's draining ends, a quarantine stays."""
    taken = {"draining": False, "started_at": _now, "seen_at": _now}
    row = asdict(slot) | taken
    session.execute(insert(Worker).values(row).on_conflict_do_update(index_elements=["owner"], set_=row))


def seen(session: Session, slot: Slot) -> bool:
    """A sign of life of a worker without a chunk.

    Returns whether it may claim: False when draining, in quarantine, or replaced by another process.
    """
    row = session.execute(
        update(Worker)
        .where(Worker.owner == slot.owner, Worker.boot_id == slot.boot_id)
        .values(seen_at=_now)
        .returning(Worker.draining, Worker.quarantined_until > _now)
    ).first()
    return row is not None and not row[0] and not row[1]


def drain(session: Session, owner: str) -> bool:
    """Ask a worker to stop at its next forward; it claims nothing more. Returns whether the worker is known."""
    done = session.execute(
        update(Worker).where(Worker.owner == owner).values(draining=True).returning(Worker.owner)
    )
    return done.first() is not None


def quarantine(session: Session, owner: str, seconds: float) -> None:
    """Keep a worker from claiming for some time."""
    until = _now + interval(seconds)
    session.execute(update(Worker).where(Worker.owner == owner).values(quarantined_until=until))


def end_quarantine(session: Session, owner: str) -> None:
    """Let a worker claim again, as after a check that its device works."""
    session.execute(
        update(Worker)
        .where(Worker.owner == owner)
        .values(quarantined_until=None, crashes_in_a_row=0, last_crashed_chunk=None)
    )


def fitting_workers(session: Session, device_class: str | None, engine: str | None) -> int:
    """How many workers that may work for a job of this device class and engine gave a sign of life lately."""
    query = select(func.count()).where(
        Worker.seen_at > _now - interval(_LATELY_SECONDS), Worker.draining.is_(False)
    )
    for column, value in ((Worker.device_class, device_class), (Worker.engine, engine)):
        if value is not None:
            query = query.where(column == value)
    return session.scalar(query) or 0


def live_workers(session: Session, within_seconds: float) -> Sequence[Worker]:
    """Workers that may claim and gave a sign of life lately."""
    since = _now - interval(within_seconds)
    return session.scalars(
        select(Worker)
        .where(
            Worker.seen_at > since,
            Worker.draining.is_(False),
            or_(Worker.quarantined_until.is_(None), Worker.quarantined_until <= _now),
        )
        .order_by(Worker.owner)
    ).all()
