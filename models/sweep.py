"""The reconciler's steps. Each is safe to repeat and to run twice at once; leading only saves work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import exists, func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from models.advance import Advance, has_open_chunk, try_advance
from models.base import one_of
from models.chunks import OPEN, Chunk
from models.control import close_pending
from models.crash import expire_leases
from models.database import Busy, Database
from models.dispatch import Doorbell, dispatch
from models.ending import ending
from models.errors import TooSlow, Unavailable
from models.events import emit
from models.failpoints import reach
from models.jobs import Job
from models.lease import OVER_TIME
from models.levels import CUT_KINDS, Level
from models.poison import dead_letter, split_poison
from models.progress import refresh_level, stirring_levels
from models.settings import ServiceSettings
from skipmap.errors import SkipmapError

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)
_LEADER_LOCK = 0x736B6970  # "skip"


@dataclass(frozen=True)
class Sweep:
    """What one sweep did. ``doorbells``: messages to publish now."""

    expired: int = 0
    split: int = 0
    failed: int = 0
    settled: int = 0
    advanced: dict[str, Advance] = field(default_factory=dict)
    doorbells: list[Doorbell] = field(default_factory=list)


def sweep(
    database: Database, settings: ServiceSettings, connected_at: datetime, *, ring: bool = True
) -> Sweep:
    """All steps in order, each in a transaction of its own; steps that another process is at are passed over.

    ``ring=False``: choose no messages, as while there is no broker to publish them.
    """

    def led(step: Callable[Concatenate[Session, P], int], *args: P.args, **kwargs: P.kwargs) -> int:
        def work(session: Session) -> int:
            done = step(session, *args, **kwargs) if lead(session) else 0
            reach("sweep.step")
            return done

        return _on_its_own(step.__name__, lambda: database.transaction(work)) or 0

    expired = led(expire_leases, settings, connected_at)
    split = led(split_poison, settings)
    failed = led(dead_letter, settings)
    led(cut_over_time)
    settled = led(settle_pausing) + led(settle_cancelling, settings)
    advanced = _on_its_own("advance_orphans", lambda: advance_orphans(database)) or {}
    for level_id in _on_its_own("stirring_levels", lambda: database.read(stirring_levels)) or []:
        led(refresh_level, level_id)

    def messages(session: Session) -> list[Doorbell]:
        chosen = dispatch(session, settings) if lead(session) else []
        reach("sweep.step")
        return chosen

    doorbells = (_on_its_own("dispatch", lambda: database.transaction(messages)) if ring else None) or []
    return Sweep(expired, split, failed, settled, advanced, doorbells)


def _on_its_own(name: str, step: Callable[[], T]) -> T | None:
    """What a step gives, None if it fails: trouble with one job must not keep the others from their turn.

    Raises Unavailable when the database is away, which is everybody's trouble.
    """
    try:
        return step()
    except Unavailable as error:
        if not isinstance(error, (Busy, TooSlow)):
            raise
        _log.warning("%s has to wait for the next sweep: %s", name, error)
    except (SkipmapError, DBAPIError, ValueError, LookupError):
        _log.exception("%s failed in this sweep", name)
    return None


def lead(session: Session) -> bool:
    """Whether this transaction is the only sweeping one."""
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(_LEADER_LOCK))))


def settle_pausing(session: Session) -> int:
    """Jobs whose last chunk has been given back are paused; returns how many."""
    busy = exists().where(Chunk.job_id == Job.id, Chunk.state == "running")
    jobs = session.scalars(
        select(Job.id)
        .where(Job.state == "pausing", ~busy)
        .order_by(Job.id)
        .with_for_update(key_share=True, skip_locked=True)
    ).all()
    for job_id in jobs:
        session.execute(update(Job).where(Job.id == job_id, Job.state == "pausing").values(state="paused"))
        emit(session, job_id, "job", state="paused")
    return len(jobs)


_REVOKE = ending(
    "cancelled",
    "j.state = 'cancelling' AND j.cancel_requested_at + make_interval(secs => :grace) <= clock_timestamp()",
    "state = 'cancelled', finished_at = clock_timestamp()",
    waits=False,
)


def settle_cancelling(session: Session, settings: ServiceSettings) -> int:
    """Jobs whose last chunk is closed are cancelled; returns how many.

    After the grace period chunks are taken from their workers, whose late writes then change nothing.
    """
    session.execute(_REVOKE, {"grace": settings.cancel_grace_seconds})
    settled = 0
    for job_id in session.scalars(select(Job.id).where(Job.state == "cancelling").order_by(Job.id)).all():
        close_pending(session, job_id)
        settled += _settle(session, job_id)
    return settled


def _settle(session: Session, job_id: str) -> bool:
    level = session.scalars(
        select(Level)
        .where(Level.job_id == job_id, Level.state == "running")
        .with_for_update(key_share=True, skip_locked=True)
    ).first()
    if level is None or has_open_chunk(session, level.id):
        return False
    now = func.clock_timestamp()
    moved = session.execute(
        update(Job)
        .where(Job.id == job_id, Job.state == "cancelling")
        .values(state="cancelled", finished_at=now)
        .returning(Job.id)
    ).first()
    if moved is None:
        return False
    session.execute(update(Level).where(Level.id == level.id).values(state="cancelled", finished_at=now))
    emit(session, job_id, "job", state="cancelled")
    return True


_CUT = text(f"""
    UPDATE chunks SET state = 'cancelled', finished_at = clock_timestamp()
    WHERE id IN (
        SELECT c.id FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id
        WHERE c.state = 'pending' AND {one_of("c.kind", CUT_KINDS)} AND j.state = 'running' AND {OVER_TIME}
        FOR NO KEY UPDATE OF c SKIP LOCKED
    )
    RETURNING id
""")


def cut_over_time(session: Session) -> int:
    """Close the pending chunks of levels whose job has spent its ``search.max_seconds``; returns how many."""
    return len(session.execute(_CUT, {"spent": 0.0}).all())


def advance_orphans(database: Database) -> dict[str, Advance]:
    """Advance levels that nobody has: their last finisher died, or their chunks were closed by a sweep.

    A level that cannot be advanced is logged and does not hold up the others; one that is being advanced is left.
    """
    done = {}
    for level_id in database.transaction(_orphans):
        advance = partial(try_advance, database, level_id, waits=False)
        if (step := _on_its_own(f"advancing level {level_id}", advance)) is not None:
            done[level_id] = step
    return done


def _orphans(session: Session) -> list[str]:
    is_open = exists().where(Chunk.level_id == Level.id, Chunk.state.in_(OPEN))
    return list(
        session.scalars(
            select(Level.id)
            .join(Job, Job.id == Level.job_id)
            .where(Level.state == "running", Job.state == "running", ~is_open)
            .order_by(Level.id)
        )
    )
