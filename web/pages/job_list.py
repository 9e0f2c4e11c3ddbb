"""The list of jobs: filters in the address, page by page, kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import urlencode

from flask import Response, redirect, request, url_for
from pydantic import Field
from werkzeug.wrappers import Response as BaseResponse

from api.jobs import JobsQuery, find_jobs
from api.paging import make_cursor
from api.service import current_service
from models.facets import Facets, facets
from models.jobs import JobState
from skipmap.canonical import bad_text
from web.asked import place_asked, problem_of, read_asked
from web.forms.text import read_pairs
from web.rendering import FRAGMENT, render
from web.routes import Pages
from web.views.jobs import name_of
from web.views.levels import time_left
from web.views.strategies import strategy_title
from web.views.words import ACCEPT_LENGTH, level_title

pages = Pages(section="jobs")
JOBS_A_PAGE = 50
_LIST = "jobs"
_TEMPLATE = "jobs/list.html"
_FILTERS = ("state", "target", "draft", "domain", "strategy", "label", "name")
_KEPT = ("state", "target", "draft", "domain", "strategy", "name", "limit")
"""Parameters that lead from page to page, beside labels."""


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
    query, errors = _query()
    before = place_asked(_LIST)
    typed = [text for text in request.args.getlist("label") if text]
    labels, bad_labels = _labels(typed)
    if bad_labels:
        errors["label"] = problem_of(f"Write name=value (given: {', '.join(map(repr, bad_labels))})")
    database = current_service().database
    found = database.read(find_jobs, query, labels, before, query.name)
    page, more = found[: query.limit], len(found) > query.limit
    good_labels = [text for text in typed if text not in bad_labels]
    chosen = {name: request.args.get(name, "") for name in _FILTERS}
    # One of several labels can be changed here, best one that is wrong.
    shown = [*bad_labels, *good_labels]
    chosen["label"] = shown[0] if shown else ""
    return render(
        _TEMPLATE,
        jobs=page,
        next_url=_address(query, good_labels, cursor=make_cursor(_LIST, page[-1].id)) if more else None,
        first_url=_address(query, good_labels) if before is not None else None,
        chosen=chosen,
        errors=errors,
        more_labels=shown[1:],
        is_filtered=any(chosen.values()),
        accept_length=ACCEPT_LENGTH,
        name_of=name_of,
        time_left=time_left,
        level_title=level_title,
        strategy_title=strategy_title,
        # Only the whole page has the filters, and only it needs to know what there is.
        **(_choices(database.read(facets), chosen) if FRAGMENT not in request.headers else {}),
    )


def _query() -> tuple[ListQuery, dict[str, str]]:
    """The filters of the address but for labels, and what is wrong with some."""
    # A form sends those that are not set as empty texts.
    apart = ("label", "cursor")
    given = {name: value for name, value in request.args.items() if value and name not in apart}
    return read_asked(ListQuery, given, _FILTERS)


def _labels(texts: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Labels as they are typed, ``name=value`` or ``name:value``, and the texts that are none."""
    found: dict[str, str] = {}
    wrong: list[str] = []
    for text in texts:
        pairs, _ = read_pairs(text if "=" in text else text.replace(":", "=", 1), texts=True)
        if len(pairs) == 1 and bad_text(pairs) is None:
            found |= {name: str(value) for name, value in pairs.items()}
        else:
            wrong.append(text)
    return found, wrong


def _address(query: ListQuery, labels: Sequence[str], **more: str) -> str:
    """This list with the filters that hold, from its beginning or from a place in it."""
    given = {name: getattr(query, name) for name in _KEPT if name in query.model_fields_set}
    found = urlencode({**given, "label": labels, **more}, doseq=True)
    return f"{url_for('show_jobs')}?{found}" if found else url_for("show_jobs")


def _choices(found: Facets, chosen: dict[str, str]) -> dict[str, Any]:
    return {
        "states": _options("Any state", get_args(JobState), chosen["state"]),
        "targets": _options("Any target", found.targets, chosen["target"]),
        "drafts": _options("Any draft", found.drafts, chosen["draft"]),
        "domains": _options("Any domain", found.domains, chosen["domain"]),
        "strategies": [
            (name, strategy_title(name) if name else text)
            for name, text in _options("Any strategy", found.strategies, chosen["strategy"])
        ],
    }


def _options(anything: str, values: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    """Options of a filter; what the address asks for is among them even where no job has it."""
    more = [chosen] if chosen and chosen not in values else []
    return [("", anything), *((value, value) for value in (*values, *more))]
