"""Configurations of a job: all of them as a table, and one with its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flask import Response, request, url_for
from sqlalchemy.orm import Session

from api.evaluations import (
    EvaluationsQuery,
    Selection,
    get_evaluations,
    place_of_cursor,
    read_all,
    read_evaluations,
)
from api.paging import make_cursor
from api.requests import validated
from api.service import Service, current_service
from models.jobs import ENDED, Job
from models.levels import EVALUATED_KINDS, Level
from models.queries import find_job, glance
from skipmap.client.documents import EvaluationView
from skipmap.errors import InvalidInput
from web.asked import note_lost_place, read_asked
from web.rendering import not_changed, render
from web.routes import Pages
from web.views.configurations import ConfigurationRow, configuration_row, read_reference
from web.views.jobs import file_stem, is_final, metric_of, name_of, readable_spec, tag_for_viewer
from web.views.results import result_of
from web.views.words import ACCEPT_LENGTH, level_title, measure_meaning, measure_name

pages = Pages(section="jobs")
_LIMIT = 50
_FILTERS = ("sort", "order", "level", "feasible")
_SORTS = {"skip": "asc", "accept_length": "desc", "metric": "desc"}
"""What one may sort by, and the order that is tried first."""


@pages.get("/jobs/<id:job_id>/configurations", access="jobs:read")
def show_configurations(job_id: str) -> Response:
    """The configurations of a job, filtered and in an order."""
    query, errors = _asked(job_id)
    service = current_service()
    tag = tag_for_viewer(service.database.read(glance, job_id, service.stored.lease_seconds).tag)
    if (same := not_changed(tag)) is not None:
        return same
    job, levels = service.database.read(_job_with_levels, job_id)
    spec = readable_spec(job)
    rows, last = _rows(service, job, query) if spec else ([], None)
    measure = spec.search.accept_measure if spec else "tokens_per_step"
    return render(
        "jobs/configurations.html",
        tag=tag,
        job=job,
        name=name_of(job),
        stem=file_stem(job),
        has_ended=job.state in ENDED,
        is_final=is_final(job.state),
        is_readable=spec is not None,
        rows=rows,
        query=query,
        errors=errors,
        shown=_shown(query),
        headers=_headers(job_id, query),
        levels=_level_options(levels, query.level),
        next_cursor=None if last is None else make_cursor(_selection(job_id, query).order, last),
        metric=metric_of(job.spec),
        measure=measure_name(measure),
        measure_meaning=measure_meaning(measure),
        accept_length=ACCEPT_LENGTH,
    )


@pages.get("/jobs/<id:job_id>/configurations.csv", access="jobs:read")
def download_configurations_csv(job_id: str) -> Response:
    """All configurations that fit the filter as CSV, as the API gives them."""
    return get_evaluations(job_id, _query().model_copy(update={"format": "csv", "cursor": None}))


@pages.get("/jobs/<id:job_id>/configurations.json", access="jobs:read")
def download_configurations_json(job_id: str) -> Response:
    """All configurations that fit the filter as one page of the API."""
    parts = read_all(current_service().database, _selection(job_id, _query()))
    response = Response(_json(parts), content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="evaluations-{job_id}.json"'
    return response


def _query() -> EvaluationsQuery:
    """What the address of a file asks for."""
    query = validated(EvaluationsQuery, _given())
    assert isinstance(query, EvaluationsQuery)
    return query


def _asked(job_id: str) -> tuple[EvaluationsQuery, dict[str, str]]:
    """What the address of the page asks for, without what cannot be used; that comes by parameter."""
    query, errors = read_asked(EvaluationsQuery, _given(), _FILTERS)
    try:
        place_of_cursor(query.cursor, _selection(job_id, query))
    except InvalidInput:
        note_lost_place()
        query = query.model_copy(update={"cursor": None})
    return query, errors


def _given() -> dict[str, Any]:
    """Parameters of the address; an empty field of the form asks for nothing."""
    given = {name: request.args[name] for name in (*_FILTERS, "cursor") if request.args.get(name)}
    return {"limit": _LIMIT, **given}


def _selection(job_id: str, query: EvaluationsQuery) -> Selection:
    return Selection(job_id, query.sort, query.order == "desc", query.level, query.feasible)


def _job_with_levels(session: Session, job_id: str) -> tuple[Job, list[Level]]:
    found = find_job(session, job_id)
    return found.job, [level for level in found.levels if level.kind in EVALUATED_KINDS]


def _level_options(levels: Sequence[Level], asked: int | None) -> list[tuple[int | None, str]]:
    """Levels to choose from: those of the job, and the one that is asked for, though nothing may be of it (yet)."""
    found = [(level.depth, level_title(level.kind, level.depth)) for level in levels]
    if asked is not None and all(depth != asked for depth, _ in found):
        found.append((asked, f"Level {asked} (nothing evaluated)"))
    return found


def _rows(
    service: Service, job: Job, query: EvaluationsQuery
) -> tuple[list[ConfigurationRow], list[Any] | None]:
    selection = _selection(job.id, query)
    selection = replace(selection, after=place_of_cursor(query.cursor, selection))
    views, last = service.database.read(read_evaluations, selection, query.limit)
    against = service.database.read(read_reference, job, result_of(service, job.id))
    return [] if against is None else [configuration_row(view, against) for view in views], last


def _shown(query: EvaluationsQuery) -> dict[str, str]:
    """The state of the page as parameters of its address, without the place in the list."""
    level = None if query.level is None else str(query.level)
    feasible = None if query.feasible is None else str(query.feasible).lower()
    found = {"sort": query.sort, "order": query.order, "level": level, "feasible": feasible}
    return {name: value for name, value in found.items() if value is not None}


def _headers(job_id: str, query: EvaluationsQuery) -> dict[str, tuple[str, str | None]]:
    """For each column that sorts: where its header leads, and the order it has now."""
    found: dict[str, tuple[str, str | None]] = {}
    for name, first in _SORTS.items():
        is_current = query.sort == name
        order = ("asc" if query.order == "desc" else "desc") if is_current else first
        asked: dict[str, Any] = {**_shown(query), "sort": name, "order": order}
        address = url_for("show_configurations", job_id=job_id, **asked)
        now = ("descending" if query.order == "desc" else "ascending") if is_current else None
        found[name] = (address, now)
    return found


def _json(parts: Iterator[list[EvaluationView]]) -> Iterator[str]:
    yield '{"items":['
    comma = ""
    for views in parts:
        for view in views:
            yield comma + view.model_dump_json()
            comma = ","
    yield '],"next_cursor":null}'
