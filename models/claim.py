"""Claim: a worker takes the chunk that a message named, or else the best pending one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import TextClause, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from models.chunks import MISSING_UNITS, Chunk, Keys
from models.errors import OwnerBusy
from models.jobs import Facts, Job
from models.levels import Level, LevelKind
from models.settings import ServiceSettings
from models.workers import Slot


@dataclass(frozen=True)
class Claim:
    """A chunk that this worker owns until its lease ends.

    ``groups``: keys of the units, group by group; ``pending``: the groups that are not stored whole yet; ``plan``:
    what the level's chunks share; ``batch_split``: the group is part of one that killed its process.
    """

    token: UUID
    owner: str
    chunk_id: str
    job_id: str
    level_id: str
    kind: LevelKind
    depth: int | None
    groups: tuple[Keys, ...]
    pending: tuple[Keys, ...]
    batch_split: bool
    attempt: int
    spec: Mapping[str, Any]
    facts: Facts | None
    plan: Mapping[str, Any]
    calibration_set_id: str | None


# Whoever failed on a chunk leaves it to others while there are any: the fault may be the worker's own.
_OTHERS_FIRST = """
    AND (c.last_owner IS DISTINCT FROM :owner OR NOT EXISTS (
        SELECT FROM workers AS o
        WHERE o.owner <> :owner AND NOT o.draining AND o.seen_at > clock_timestamp() - make_interval(secs => :lease)
        AND (o.quarantined_until IS NULL OR o.quarantined_until <= clock_timestamp())
        AND (j.device_class IS NULL OR o.device_class = j.device_class)
        AND (j.engine IS NULL OR o.engine = j.engine)))
"""

CLAIMABLE = """
    c.state = 'pending' AND NOT c.permanent
    AND c.crash_count < :max_crashes AND c.error_count < :max_errors
    AND (c.not_before IS NULL OR c.not_before <= clock_timestamp())
    AND j.state = 'running'
"""


def _take(which: str) -> TextClause:
    return text(f"""
        UPDATE chunks SET
            state = 'running', owner = :owner, claim_token = :token, attempt = attempt + 1, not_before = NULL,
            claimed_at = clock_timestamp(), progress_at = clock_timestamp(),
            lease_expires_at = clock_timestamp() + make_interval(secs => :lease)
        WHERE id = (
            SELECT c.id FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id
            WHERE {CLAIMABLE}
            AND (j.device_class IS NULL OR j.device_class = :device_class)
            AND (j.engine IS NULL OR j.engine = :engine)
            AND EXISTS (
                SELECT FROM workers AS w WHERE w.owner = :owner AND w.boot_id = :boot_id AND NOT w.draining
                AND (w.quarantined_until IS NULL OR w.quarantined_until <= clock_timestamp()))
            {_OTHERS_FIRST}
            AND NOT EXISTS (SELECT FROM chunks AS mine WHERE mine.owner = :owner AND mine.state = 'running')
            {which}
            LIMIT 1 FOR NO KEY UPDATE OF c SKIP LOCKED
        )
        RETURNING id
    """)


_TAKE_NAMED = _take("AND c.id = :hint")
_TAKE_BEST = _take("ORDER BY c.priority DESC, c.id")
_MISSING = text(f"SELECT {MISSING_UNITS} FROM chunks AS c WHERE c.id = :id")


def claim(
    session: Session, settings: ServiceSettings, slot: Slot, token: UUID, hint: str | None = None
) -> Claim | None:
    """Take a chunk under a fresh random token: the hinted one if it can be had, else the best pending one.

    None when there is nothing to do, or when the slot is draining, in quarantine, or has another process. A repeated
    call with the same token gives the same chunk. Raises OwnerBusy when two processes claim for one slot at once.
    """
    values = {
        "owner": slot.owner,
        "boot_id": slot.boot_id,
        "device_class": slot.device_class,
        "engine": slot.engine,
        "token": token,
        "lease": settings.lease_seconds,
        "max_crashes": settings.max_crashes,
        "max_errors": settings.max_errors,
    }
    taken = session.scalar(
        select(Chunk.id).where(
            Chunk.owner == slot.owner, Chunk.state == "running", Chunk.claim_token == token
        )
    )
    try:
        if taken is None and hint is not None:
            taken = session.scalar(_TAKE_NAMED, values | {"hint": hint})
        if taken is None:
            taken = session.scalar(_TAKE_BEST, values)
    except IntegrityError as error:
        raise OwnerBusy(f"{slot.owner} holds a chunk already; is a second process running for it?") from error
    return None if taken is None else _read(session, taken, token, slot.owner)


def _read(session: Session, chunk_id: str, token: UUID, owner: str) -> Claim:
    chunk, level, job = session.execute(
        select(Chunk, Level, Job)
        .join(Level, Level.id == Chunk.level_id)
        .join(Job, Job.id == Chunk.job_id)
        .where(Chunk.id == chunk_id)
        .execution_options(populate_existing=True)
    ).one()
    missing = set(session.scalar(_MISSING, {"id": chunk_id}) or ())
    groups = tuple(tuple(keys) for keys in chunk.groups)
    return Claim(
        token=token,
        owner=owner,
        chunk_id=chunk.id,
        job_id=chunk.job_id,
        level_id=chunk.level_id,
        kind=chunk.kind,
        depth=level.depth,
        groups=groups,
        pending=tuple(keys for keys in groups if not missing.isdisjoint(keys)),
        batch_split=chunk.batch_split,
        attempt=chunk.attempt,
        spec=job.spec,
        facts=job.parsed_facts,
        plan=level.plan or {},
        calibration_set_id=job.calibration_set_id,
    )
