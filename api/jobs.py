"""Jobs over HTTP: submit, list, poll, control."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flask import Response, g, request
from pydantic import Field
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.problems import RETRY_SECONDS
from api.requests import idempotency_key
from api.routes import PREFIX, Answer, Routes
from api.service import current_service
from api.submission import submit_job
from api.views import job_summaries, job_view
from models import control
from models.audit import record
from models.base import is_id
from models.jobs import ENDED, Job
from models.patience import patience
from models.queries import glance, job_revision, list_jobs
from models.removal import empty_job
from skipmap.client.documents import (
    JobRequest,
    JobState,
    JobSummary,
    JobView,
    Page,
    PriorityChange,
)
from skipmap.client.labels import read_label

routes = Routes("jobs")
_LIST = "jobs"
_DELETE_SECONDS = 20.0

_JOB = Answer("The job", JobView, headers=("ETag", "Retry-After"))
_MOVED = {202: Answer("The job, in its new state", JobView, headers=("ETag", "Retry-After"))}


class JobsQuery(PageQuery):
    """Which jobs."""

    state: JobState | None = None
    target: str | None = Field(default=None, min_length=1)
    draft: str | None = Field(default=None, min_length=1)
    domain: str | None = Field(default=None, min_length=1)
    strategy: str | None = Field(default=None, min_length=1)
    label: list[str] = Field(
        default=[], description="`name=value`; may be given several times, and all must fit."
    )


@routes.add(
    "POST",
    "/jobs",
    access="jobs:write",
    body=JobRequest,
    request_headers={
        "Idempotency-Key": "A text of your own: the same request sent again with it gives the first job."
    },
    answers={
        202: Answer("The new job", JobView, headers=("Location", "ETag", "Retry-After")),
        200: Answer("The job that this idempotency key made before", JobView, headers=("Location", "ETag")),
    },
    problems=(409,),
)
def create_job(body: JobRequest) -> Response:
    """Check a job spec whole, and store it as a job that workers take up."""
    service, principal = current_service(), current_principal()
    job_id, new = submit_job(service, principal, body, idempotency_key(), g.request_id)
    view, tag = service.database.read(job_view, job_id, service.stored.lease_seconds)
    response = _job_response(view, tag, 202 if new else 200)
    response.headers["Location"] = f"{PREFIX}/jobs/{job_id}"
    return response


@routes.add(
    "GET",
    "/jobs",
    access="jobs:read",
    query=JobsQuery,
    answers={200: Answer("A page of jobs, newest first", Page[JobSummary], headers=("Link",))},
)
def get_jobs(query: JobsQuery) -> Response:
    """List jobs, newest first."""
    before = read_cursor(query.cursor, _LIST)
    if before is not None and not is_id(before):
        raise bad_cursor()
    labels = dict(read_label(text) for text in query.label)
    found = current_service().database.read(find_jobs, query, labels, before)
    page = found[: query.limit]
    more = len(found) > query.limit
    return page_of(page, make_cursor(_LIST, page[-1].id) if more else None)


@routes.add(
    "GET",
    "/jobs/<id:job_id>",
    access="jobs:read",
    request_headers={"If-None-Match": "The ETag of an earlier answer: nothing new gives 304 without a body."},
    answers={200: _JOB, 304: Answer("Nothing has changed", headers=("ETag", "Retry-After"))},
)
def get_job(job_id: str) -> Response:
    """One job: state, levels, progress, time left, best configuration so far."""
    service = current_service()
    if request.if_none_match:
        seen = service.database.read(glance, job_id, service.stored.lease_seconds)
        if request.if_none_match.contains_weak(seen.tag):
            return _polled(Response(status=304), seen.tag, ended=seen.state in ENDED)
    view, tag = service.database.read(job_view, job_id, service.stored.lease_seconds)
    return _job_response(view, tag, 200)


@routes.add(
    "PATCH",
    "/jobs/<id:job_id>",
    access="jobs:write",
    body=PriorityChange,
    answers={200: _JOB},
    problems=(409,),
)
def change_job(job_id: str, body: PriorityChange) -> Response:
    """Change a job's priority."""
    return _changed(
        job_id, "job.priority", lambda session: control.set_priority(session, job_id, body.priority), 200
    )


@routes.add(
    "DELETE",
    "/jobs/<id:job_id>",
    access="jobs:write",
    answers={204: Answer("The job is gone")},
    problems=(409,),
)
def delete_job(job_id: str) -> Response:
    """Remove a job that has ended, with all that it stored. A large one takes a while, and is `cancelled` meanwhile."""
    database, actor, request_id = current_service().database, current_principal().user_id, g.request_id

    def work(session: Session) -> None:
        control.delete_job(session, job_id)
        record(session, actor, "job.delete", job_id, request_id)

    # A first quick statement shows whether the server answers; those that remove rows may then take their time.
    database.read(job_revision, job_id)
    with patience(_DELETE_SECONDS):
        empty_job(database, job_id)
        database.transaction(work)
    return Response(status=204)


@routes.add("POST", "/jobs/<id:job_id>/cancel", access="jobs:write", answers=_MOVED, problems=(409,))
def cancel_job(job_id: str) -> Response:
    """Cancel a job: workers stop at their next forward.

    What was evaluated stays stored, but a job that was stopped (aborted) so does not go on; to let it rest, pause it.
    """
    return _changed(job_id, "job.cancel", lambda session: control.cancel(session, job_id))


@routes.add("POST", "/jobs/<id:job_id>/pause", access="jobs:write", answers=_MOVED, problems=(409,))
def pause_job(job_id: str) -> Response:
    """Pause a running job; what is evaluated stays."""
    return _changed(job_id, "job.pause", lambda session: control.pause(session, job_id))


@routes.add("POST", "/jobs/<id:job_id>/resume", access="jobs:write", answers=_MOVED, problems=(409,))
def resume_job(job_id: str) -> Response:
    """Go on with a paused job."""
    return _changed(job_id, "job.resume", lambda session: control.resume(session, job_id))


@routes.add("POST", "/jobs/<id:job_id>/retry", access="jobs:write", answers=_MOVED, problems=(409,))
def retry_job(job_id: str) -> Response:
    """Try the failed work of a failed job again.

    The job goes on where it failed (restart, rerun); what is stored is not evaluated once more.
    """
    return _changed(job_id, "job.retry", lambda session: control.retry(session, job_id))


def find_jobs(
    session: Session,
    query: JobsQuery,
    labels: Mapping[str, str],
    before: str | None,
    name: str | None = None,
) -> list[JobSummary]:
    """Jobs that fit, newest first, and one more than asked for where there are more; ``name``: a part of theirs."""
    jobs = list_jobs(
        session,
        limit=query.limit + 1,
        before=before,
        state=query.state,
        target=query.target,
        draft=query.draft,
        domain=query.domain,
        strategy=query.strategy,
        labels=labels,
        name=name,
    )
    return job_summaries(session, jobs)


def _changed(job_id: str, action: str, change: Callable[[Session], Job], status: int = 202) -> Response:
    service, actor, request_id = current_service(), current_principal().user_id, g.request_id

    def work(session: Session) -> tuple[JobView, str]:
        change(session)
        record(session, actor, action, job_id, request_id)
        session.flush()
        return job_view(session, job_id, service.stored.lease_seconds)

    view, tag = service.database.transaction(work)
    return _job_response(view, tag, status)


def _job_response(view: JobView, tag: str, status: int) -> Response:
    return _polled(json_response(view, status), tag, ended=view.state in ENDED)


def _polled(response: Response, tag: str, *, ended: bool) -> Response:
    response.set_etag(tag, weak=True)
    response.headers["Cache-Control"] = "private, no-cache"
    if not ended:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response
