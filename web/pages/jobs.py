"""The page of a job: how far it is, what it found, and what may be done with it."""

from __future__ import annotations

from typing import Any

from flask import Response, request, url_for

from api.results import ResultQuery, get_report, get_result
from api.service import Service, current_service
from api.streams import event_stream
from models.jobs import ENDED
from models.queries import glance, job_revision
from web.forms.parameters import is_lossy
from web.rendering import FRAGMENT, not_changed, render
from web.routes import Pages
from web.views.clouds import MOST_POINTS, cloud_at, front_of
from web.views.costs import cost_rows
from web.views.held_out import checked_points
from web.views.jobs import JobPage, drawn_tag, file_stem, is_final, read_job_page, tag_for_viewer
from web.views.results import Result, result_of
from web.views.strategies import kept_by_front, strategy_summary, strategy_title
from web.views.words import ACCEPT_LENGTH, kind_title, measure_meaning, measure_name

pages = Pages()
_STREAM_SECONDS = 30.0
"""Then browsers come back, and show a session that still holds."""
_WITH_FIGURES = (None, "figures")
_WITH_RESULT = (None, "controls", "status", "figures")
"""Parts of the page that show them; the whole page has no name."""


@pages.get("/jobs/<id:job_id>", access="jobs:read")
def show_job(job_id: str) -> Response:
    """One job: state, levels, progress, and the figures that it has so far."""
    service, fragment = current_service(), request.headers.get(FRAGMENT)
    tag = _tag(service, job_id, fragment)
    if (same := not_changed(tag)) is not None:
        return same
    page = service.database.read(read_job_page, job_id, service.stored.lease_seconds)
    has_result = page.view.state == "succeeded" and fragment in _WITH_RESULT
    result = result_of(service, job_id) if has_result else None
    return render(
        "jobs/job.html",
        tag=tag,
        page=page,
        job=page.view,
        has_ended=page.view.state in ENDED,
        is_final=is_final(page.view.state),
        accept_length=ACCEPT_LENGTH,
        kind_title=kind_title,
        is_lossy=is_lossy(page.view.draft, page.view.spec.get("draft", {}).get("params")),
        strategy=strategy_title(page.view.strategy),
        strategy_summary=strategy_summary(page.view.strategy),
        kept=kept_by_front(page.view.strategy),
        events_url=_events_url(service, job_id) if fragment is None else "",
        result=result,
        stem=file_stem(page.view),
        **(_figures(service, page, result) if fragment in _WITH_FIGURES else {}),
    )


@pages.get("/jobs/<id:job_id>/stream", access="jobs:read")
def follow_job(job_id: str) -> Response:
    """Events of a job as they come; each is a reason to look at the page again."""
    after = request.args.get("after", default=0, type=int)
    return event_stream(job_id, max(0, after), _STREAM_SECONDS)


@pages.get("/jobs/<id:job_id>/result.json", access="jobs:read")
def download_result(job_id: str) -> Response:
    """The result document, without the rows of single prompts."""
    response = get_result(job_id, ResultQuery())
    response.headers["Content-Disposition"] = f'attachment; filename="result-{job_id}.json"'
    return response


@pages.get("/jobs/<id:job_id>/report", access="jobs:read")
def show_report(job_id: str) -> Response:
    """The result as one page that needs nothing else, to keep or to send."""
    return get_report(job_id)


def _events_url(service: Service, job_id: str) -> str:
    # What the page shows already is no news.
    seen = service.database.read(job_revision, job_id)
    return url_for("follow_job", job_id=job_id, after=seen)


def _tag(service: Service, job_id: str, fragment: str | None) -> str:
    if fragment == "figures":
        return tag_for_viewer(service.database.read(drawn_tag, job_id))
    return tag_for_viewer(service.database.read(glance, job_id, service.stored.lease_seconds).tag)


def _figures(service: Service, page: JobPage, result: Result | None) -> dict[str, Any]:
    tag = service.database.read(drawn_tag, page.view.id)
    cloud = cloud_at(service, page.view.id, page.search, tag) if page.search else None
    measure = page.search.accept_measure if page.search else "tokens_per_step"
    checked = checked_points(result.view) if result else ()
    return {
        "cloud": cloud,
        "front": front_of(cloud, page.selected) if cloud else None,
        "costs": cost_rows(result) if result else (),
        "checked": checked,
        "verdicts": {point.key: point.verdict for point in checked},
        "is_by_tokens": measure == "tokens_per_step",
        "measure": measure_name(measure),
        "measure_meaning": measure_meaning(measure),
        "most_points": MOST_POINTS,
    }
