"""Submit: a checked spec becomes a job with its first level, in one transaction."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from models.base import new_id
from models.calibration_sets import CalibrationSet
from models.chunks import Chunk, skip_key
from models.events import emit
from models.idempotency import take_key
from models.jobs import DEFAULT_PRIORITY, Job
from models.levels import Level
from skipmap.canonical import bad_text, digest
from skipmap.errors import InvalidInput, NotFound
from skipmap.profiling.search import DENSE
from skipmap.spec import JobSpec


def submit(
    session: Session,
    spec: JobSpec,
    job_id: str,
    *,
    priority: int = DEFAULT_PRIORITY,
    created_by: str | None = None,
    calibration_set_id: str | None = None,
    principal: str = "",
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> tuple[Job, bool]:
    """Store a job, ready to be claimed; returns it and whether it is new.

    ``job_id``: a fresh id (``new_id``), made before the transaction, so that a repeated one finds its job. An
    idempotency key of the same principal leads a repeated request to the first job; requests with one key that come
    at once wait for each other. ``request_hash`` tells requests apart, by default by what is stored; give that of the
    request itself where the spec was completed from elsewhere. Raises KeyReused when the key came with another
    request, KeyInUse when the first one is at work for long, NotFound for an unknown calibration set, and InvalidInput.
    """
    if not 0 <= priority <= 9:
        raise InvalidInput("priority", f"{priority} given; allowed are 0 to 9, 9 first")
    document = spec.model_dump(mode="json")
    bad = bad_text(document)
    if bad is not None:
        raise InvalidInput(bad or "spec", "holds characters that no database keeps (a lone surrogate or NUL)")
    if calibration_set_id is not None and session.get(CalibrationSet, calibration_set_id) is None:
        raise NotFound(f"no calibration set {calibration_set_id!r}")
    if idempotency_key is not None:
        stored = {"spec": document, "priority": priority, "calibration_set": calibration_set_id}
        job_id = take_key(session, principal, idempotency_key, request_hash or digest(stored), job_id)
    added = session.execute(
        insert(Job)
        .values(
            id=job_id,
            state="running",
            spec=document,
            spec_digest=spec.digest,
            name=spec.name,
            labels=dict(spec.labels),
            target=spec.target.id,
            draft=spec.draft.method,
            domain=spec.domain.name,
            strategy=spec.search.strategy,
            priority=priority,
            created_by=created_by,
            calibration_set_id=calibration_set_id,
            device_class=_device_class(spec.target.device),
            max_seconds=spec.search.max_seconds,
        )
        .on_conflict_do_nothing()
        .returning(Job.id)
    ).first()
    if added is not None:
        level = Level(id=new_id(), job_id=job_id, idx=0, kind="dense", depth=0, state="running", size=1)
        session.add(level)
        session.flush()
        session.add(
            Chunk(
                id=new_id(),
                job_id=job_id,
                level_id=level.id,
                seq=0,
                kind="dense",
                groups=[[skip_key(DENSE)]],
                priority=priority,
                state="pending",
            )
        )
        session.flush()
        emit(session, job_id, "job", state="running")
    job = session.scalars(select(Job).where(Job.id == job_id).execution_options(populate_existing=True)).one()
    return job, added is not None


def _device_class(device: str) -> str | None:
    """``cuda:1`` asks for any worker with a device of kind ``cuda``; ``auto`` leaves it open."""
    return None if device == "auto" else device.partition(":")[0]
