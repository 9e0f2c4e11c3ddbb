"""Submission: from a request to a stored job."""

from __future__ import annotations

from sqlalchemy.orm import Session

from api.admission import admit
from api.service import Service
from models.accounts import Principal
from models.audit import record
from models.base import new_id
from models.failpoints import reach
from models.idempotency import job_of_key
from models.submit import submit
from skipmap.canonical import digest
from skipmap.client.documents import JobRequest
from skipmap.errors import InvalidInput, NotFound
from skipmap.spec import JobSpec


def submit_job(
    service: Service,
    principal: Principal,
    request: JobRequest,
    idempotency_key: str | None = None,
    request_id: str | None = None,
) -> tuple[str, bool]:
    """Check and store a job; returns its id and whether it is new.

    A request that came with the same key before gets its job, whatever has become of the names in it since. Raises
    InvalidInput naming the field, KeyReused, KeyInUse and Unavailable.
    """
    # Of the fields as they were given: what names stand for may change between two equal requests.
    request_hash = digest(request.model_dump(mode="json", exclude_unset=True))
    if idempotency_key is not None:
        first = service.database.read(job_of_key, principal.user_id, idempotency_key, request_hash)
        if first is not None:
            return first, False
    # Section by section, for a section knows which of its fields were given.
    spec = JobSpec(**{name: getattr(request, name) for name in JobSpec.model_fields})
    admitted = admit(service, spec)
    job_id = new_id()

    def work(session: Session) -> tuple[str, bool]:
        job, new = submit(
            session,
            admitted.spec,
            job_id,
            priority=request.priority,
            created_by=principal.user_id,
            calibration_set_id=admitted.calibration_set_id,
            principal=principal.user_id,
            idempotency_key=idempotency_key,
            request_hash=request_hash,
        )
        if new:
            record(session, principal.user_id, "job.submit", job.id, request_id)
        reach("api.before_commit")
        return job.id, new

    try:
        stored = service.database.transaction(work)
    except NotFound as error:
        # The set was there when it was checked; somebody has removed it since.
        raise InvalidInput("calibration.source", str(error)) from None
    reach("api.after_commit")
    return stored
