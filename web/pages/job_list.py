"""The list of jobs: filters in the address, page by page, kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import urlencode

from flask import Response, redirect, request, url_for
from pydantic import Field
from werkzeug.wrappers import Response as BaseResponse

from api.jobs import JobsQuery, find_jobs
from api.paging import bad_cursor, make_cursor, read_cursor
from api.requests import validated
from api.service import current_service
from models.base import is_id
from models.facets import Facets, facets
from models.jobs import JobState
from skipmap.errors import InvalidInput
from web.forms.text import read_pairs
from web.rendering import FRAGMENT, render
from web.routes import Pages
from web.views.jobs import name_of
from web.views.levels import time_left
from web.views.words import ACCEPT_LENGTH, level_title

pages = Pages(section="jobs")
JOBS_A_PAGE = 50
_LIST = "jobs"
_TEMPLATE = "jobs/list.html"
_FILTERS = ("state", "target", "draft", "domain", "label", "name")


class ListQuery(JobsQuery):
    """What the list shows; ``name``: a part of the job's name."""

    limit: int = Field(default=JOBS_A_PAGE, ge=1, le=200)
    name: str | None = Field(default=None, min_length=1, max_length=200)


@pages.get("/", access="signed in")
def start() -> BaseResponse:
    """The site begins with the jobs."""
    return redirect(url_for("show_jobs"), 303)


@pages.get("/jobs", access="jobs:read")
def show_jobs() -> Response:
    """Jobs that fit the filters, newest first."""
    query = _query()
    before = read_cursor(query.cursor, _LIST)
    if before is not None and not is_id(before):
        raise bad_cursor()
    database = current_service().database
    found = database.read(find_jobs, query, _labels(query.label), before, query.name)
    page, more = found[: query.limit], len(found) > query.limit
    chosen = {name: request.args.get(name, "") for name in _FILTERS}
    chosen["label"] = query.label[0] if query.label else ""
    return render(
        _TEMPLATE,
        jobs=page,
        next_url=_address(cursor=make_cursor(_LIST, page[-1].id)) if more else None,
        first_url=_address() if before is not None else None,
        chosen=chosen,
        more_labels=query.label[1:],
        is_filtered=any(chosen.values()),
        accept_length=ACCEPT_LENGTH,
        name_of=name_of,
        time_left=time_left,
        level_title=level_title,
        # Only the whole page has the filters, and only it needs to know what there is.
        **(_choices(database.read(facets), chosen) if FRAGMENT not in request.headers else {}),
    )


def _query() -> ListQuery:
    """The filters of the address; a form sends those that are not set as empty texts."""
    given: dict[str, Any] = {name: value for name, value in request.args.items() if value and name != "label"}
    query = validated(ListQuery, {**given, "label": [text for text in request.args.getlist("label") if text]})
    assert isinstance(query, ListQuery)
    return query


def _labels(texts: Sequence[str]) -> dict[str, str]:
    """Labels as they are typed, ``key:value`` or ``key=value``."""
    found: dict[str, str] = {}
    for text in texts:
        pairs, _ = read_pairs(text if "=" in text else text.replace(":", "=", 1), texts=True)
        if len(pairs) != 1:
            raise InvalidInput("label", f"{text!r} given; write key:value")
        found |= {name: str(value) for name, value in pairs.items()}
    return found


def _address(**more: str) -> str:
    """This list with its filters, from its beginning or from a place in it."""
    kept = [(name, value) for name, value in request.args.items(multi=True) if value and name != "cursor"]
    query = urlencode([*kept, *more.items()])
    return f"{url_for('show_jobs')}?{query}" if query else url_for("show_jobs")


def _choices(found: Facets, chosen: dict[str, str]) -> dict[str, Any]:
    return {
        "states": _options("Any state", get_args(JobState), chosen["state"]),
        "targets": _options("Any target", found.targets, chosen["target"]),
        "drafts": _options("Any draft", found.drafts, chosen["draft"]),
        "domains": _options("Any domain", found.domains, chosen["domain"]),
    }


def _options(anything: str, values: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    """Options of a filter; what the address asks for is among them even where no job has it."""
    more = [chosen] if chosen and chosen not in values else []
    return [("", anything), *((value, value) for value in (*values, *more))]
