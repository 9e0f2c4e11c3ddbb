"""What one does to a job: a question that says what follows, then the change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import request, url_for
from flask.typing import ResponseReturnValue

from api import jobs
from api.requests import validated
from api.service import current_service
from api.views import job_view
from models.errors import Conflict
from skipmap.client.documents import JobView, PriorityChange
from skipmap.errors import InvalidInput, NotFound
from web.rendering import done, refused, render
from web.routes import Pages
from web.views.actions import ACTIONS, Action, consequences
from web.views.jobs import name_of

pages = Pages(section="jobs")
_TEMPLATE = "jobs/action.html"

# The calls of the API, with all that belongs to them.
_CHANGES: dict[str, Callable[[str], object]] = {
    "pause": jobs.pause_job,
    "resume": jobs.resume_job,
    "cancel": jobs.cancel_job,
    "retry": jobs.retry_job,
    "delete": jobs.delete_job,
    "priority": lambda job_id: jobs.change_job(job_id, _priority()),
}


@pages.get("/jobs/<id:job_id>/<name:action>", access="jobs:write")
def confirm_job_action(job_id: str, action: str) -> ResponseReturnValue:
    """Ask before a change, and say what stays and what is lost."""
    asked, job = _action(action), _job(job_id)
    if job.state not in asked.states:
        raise _too_late(asked, job)
    return render(_TEMPLATE, **_context(asked, job), errors={})


@pages.post("/jobs/<id:job_id>/<name:action>", access="jobs:write")
def change_job(job_id: str, action: str) -> ResponseReturnValue:
    """Make the change."""
    asked = _action(action)
    try:
        _CHANGES[action](job_id)
    except InvalidInput as error:
        return refused(_TEMPLATE, {error.field: error.problem}, **_context(asked, _job(job_id)))
    lists = action == "delete"
    return done(asked.done, url_for("show_jobs") if lists else url_for("show_job", job_id=job_id))


def _action(name: str) -> Action:
    found = ACTIONS.get(name)
    if found is None:
        raise NotFound(f"a job has no action {name!r}")
    return found


def _job(job_id: str) -> JobView:
    service = current_service()
    return service.database.read(job_view, job_id, service.stored.lease_seconds)[0]


def _priority() -> PriorityChange:
    change = validated(PriorityChange, {"priority": request.form.get("priority", "")})
    assert isinstance(change, PriorityChange)
    return change


def _too_late(asked: Action, job: JobView) -> Conflict:
    allowed = " or ".join(asked.states)
    return Conflict(
        f"the job is {job.state} by now, and {asked.label.lower()} is for a job that is {allowed}", job.state
    )


def _context(asked: Action, job: JobView) -> dict[str, Any]:
    return {
        "asked": asked,
        "job": job,
        "name": name_of(job),
        "told": consequences(asked, job),
        "priority": request.form.get("priority", job.priority),
        "action": url_for("change_job", job_id=job.id, action=asked.name),
        "back": url_for("show_job", job_id=job.id),
        "danger": asked.danger,
    }
