"""Workers: who may claim chunks. One row a slot, which is a GPU or a CPU place; its name is the ``owner`` of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, delete, exists, false, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, interval
from models.chunks import Chunk
from skipmap.errors import NotFound


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


OWNER_PATTERN = "[A-Za-z0-9_.:-][A-Za-z0-9_.:/-]{0,299}"
"""What an ``owner`` looks like: its host, a slash, and a GPU's UUID or a CPU place."""

_now = func.clock_timestamp()
_LATELY_SECONDS = 60
_LIVE = """(
    workers.seen_at > clock_timestamp() - make_interval(secs => :within) AND NOT workers.draining
    AND (workers.quarantined_until IS NULL OR workers.quarantined_until <= clock_timestamp())
)"""
# Asked for with every poll of a job that waits.
_KINDS = text(f"SELECT DISTINCT device_class, engine FROM workers WHERE {_LIVE}")


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
    query = select(Worker).where(text(_LIVE)).order_by(Worker.owner)
    return session.scalars(query, {"within": within_seconds}).all()


def live_kinds(session: Session, within_seconds: float) -> set[tuple[str, str]]:
    """Device class and engine of ``live_workers``."""
    return {(row.device_class, row.engine) for row in session.execute(_KINDS, {"within": within_seconds})}


@dataclass(frozen=True)
class WorkerState:
    """A worker as others see it. ``live``: it may claim, and gave a sign of life lately; ``chunk``: what it is at."""

    worker: Worker
    live: bool
    chunk: str | None
    job: str | None


def list_workers(
    session: Session, within_seconds: float, *, limit: int, after: str | None = None
) -> list[WorkerState]:
    """A page of all workers by name, those long gone among them; ``after``: the last one of the page before."""
    query = _states().order_by(Worker.owner).limit(limit)
    query = query if after is None else query.where(Worker.owner > after)
    return [WorkerState(*row) for row in session.execute(query, {"within": within_seconds})]


def find_worker(session: Session, owner: str, within_seconds: float) -> WorkerState:
    """One worker; raises NotFound."""
    query = _states().where(Worker.owner == owner).execution_options(populate_existing=True)
    row = session.execute(query, {"within": within_seconds}).first()
    if row is None:
        raise NotFound(f"no worker {owner!r}")
    return WorkerState(*row)


def forget_workers(session: Session, seconds: float) -> int:
    """Remove workers that gave no sign of life for so long and hold nothing; returns how many."""
    holds = exists().where(Chunk.owner == Worker.owner, Chunk.state == text("'running'"))
    removed = session.execute(
        delete(Worker).where(Worker.seen_at < _now - interval(seconds), ~holds).returning(Worker.owner)
    )
    return len(removed.all())


def _states() -> Select[Worker, Any, str, str]:
    at = and_(Chunk.owner == Worker.owner, Chunk.state == text("'running'"))
    return (
        select(Worker, text(f"{_LIVE} AS live"), Chunk.id, Chunk.job_id)
        .select_from(Worker)
        .outerjoin(Chunk, at)
    )
