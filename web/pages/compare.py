"""Jobs side by side, and the list to choose them from."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Response, request, url_for
from sqlalchemy.orm import Session

from api.paging import make_cursor
from api.service import Service, current_service
from models.base import is_id
from models.compared import jobs_by_id
from models.jobs import Job
from models.queries import list_jobs
from skipmap.canonical import bad_text
from web.asked import place_asked, problem_of
from web.rendering import render
from web.routes import Pages
from web.views.comparability import spec_fields, warnings_of
from web.views.comparison import (
    ComparedJob,
    accept_bars,
    file_stem,
    layer_groups,
    metric_chart,
    side_by_side,
    speed_chart,
)
from web.views.jobs import name_of
from web.views.results import result_of
from web.views.words import ACCEPT_LENGTH

pages = Pages()
MOST_JOBS = 12
_JOBS_A_PAGE = 50
_LIST = "succeeded jobs"
_FILTERS = ("domain", "draft", "target")


@pages.get("/compare", access="jobs:read")
def compare_jobs() -> Response:
    """Several jobs that have succeeded; without any, or with ``add``, the list of those that there are."""
    asked = list(dict.fromkeys(request.args.getlist("job")))
    service = current_service()
    if request.args.get("add") or not asked:
        return _picker(service, asked)
    jobs, problems = _found(service, asked)
    return render(
        "compare/compare.html",
        jobs=jobs,
        problems=problems,
        asked=[job.job.id for job in jobs],
        bars=accept_bars(jobs, _address),
        speed=speed_chart(jobs, _address),
        quality=metric_chart(jobs, _address),
        groups=layer_groups(jobs),
        warnings=warnings_of(jobs),
        all_fields=_all_fields(),
        fields=spec_fields([job.job.spec for job in jobs], everything=_all_fields()),
        accept_length=ACCEPT_LENGTH,
        stem=file_stem(jobs),
    )


def _all_fields() -> bool:
    return request.args.get("fields") == "all"


def _address(job_id: str) -> str:
    return url_for("show_job", job_id=job_id)


def _found(service: Service, asked: Sequence[str]) -> tuple[tuple[ComparedJob, ...], list[str]]:
    """The jobs that can be compared, and what is wrong with the others."""
    problems = []
    if len(asked) > MOST_JOBS:
        problems.append(
            f"{len(asked)} jobs are asked for, and {MOST_JOBS} can be compared at a time: the first ones are shown."
        )
    found = []
    known = service.database.read(jobs_by_id, [job_id for job_id in asked[:MOST_JOBS] if is_id(job_id)])
    for job_id in asked[:MOST_JOBS]:
        if (job := known.get(job_id)) is None:
            problems.append(f"There is no job {job_id}; it may have been deleted.")
            continue
        result = result_of(service, job.id) if job.state == "succeeded" else None
        if result is None:
            problems.append(f"The job {name_of(job)} is {job.state} and has no result, so it is left out.")
            continue
        found.append((job, result))
    return side_by_side(found), problems


def _picker(service: Service, asked: Sequence[str]) -> Response:
    before = place_asked(_LIST)
    given = {name: request.args[name] for name in _FILTERS if request.args.get(name)}
    wanted = {name: text for name, text in given.items() if bad_text(text) is None}
    errors = {
        name: problem_of("holds characters that are no valid text") for name in given.keys() - wanted.keys()
    }

    def read(session: Session) -> Sequence[Job]:
        return list_jobs(
            session,
            limit=_JOBS_A_PAGE + 1,
            before=before,
            state="succeeded",
            target=wanted.get("target"),
            draft=wanted.get("draft"),
            domain=wanted.get("domain"),
        )

    found = service.database.read(read)
    shown = found[:_JOBS_A_PAGE]
    chosen = [job_id for job_id in asked if is_id(job_id)]
    return render(
        "compare/choose.html",
        jobs=[(job, name_of(job)) for job in shown],
        # Those that are chosen and on another page stay chosen.
        elsewhere=[job_id for job_id in chosen if job_id not in {job.id for job in shown}],
        asked=chosen,
        wanted=wanted,
        errors=errors,
        is_first=before is None,
        next_cursor=make_cursor(_LIST, shown[-1].id) if len(found) > _JOBS_A_PAGE else None,
        most=MOST_JOBS,
    )
