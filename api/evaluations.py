"""Evaluations of a job: pages with figures, and all of them as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from api.csv import csv_file, csv_text
from api.paging import PageQuery, bad_cursor, make_cursor, page_of, read_cursor
from api.routes import Answer, Routes
from api.service import current_service
from api.views import evaluation_view
from models.database import Database
from models.queries import EvaluationSort, find_job, floors_of, list_evaluations, place_of
from skipmap.client.documents import EvaluationView, Page
from skipmap.errors import InvalidInput

routes = Routes("jobs")
_ROWS_AT_A_TIME = 1000
_COLUMNS = (
    "skip",
    "level",
    "accept_length",
    "accepted_drafts",
    "metric",
    "steps",
    "tree_size",
    "feasible",
    "evaluator",
    "batch_split",
    "cached",
    "seconds",
)


class EvaluationsQuery(PageQuery):
    """Which configurations, in which order and form."""

    sort: EvaluationSort = "skip"
    order: Literal["asc", "desc"] = "asc"
    level: int | None = Field(
        default=None, ge=0, le=512, description="How many blocks are skipped; 0 is dense."
    )
    feasible: bool | None = Field(default=None, description="Whether both floors are met.")
    per_prompt: bool = False
    format: Literal["json", "csv"] = Field(
        default="json", description="`csv` gives all rows at once and takes no cursor."
    )


@dataclass(frozen=True)
class Selection:
    """Which evaluations of a job are asked for, and in which order."""

    job_id: str
    sort: EvaluationSort = "skip"
    descending: bool = False
    level: int | None = None
    feasible: bool | None = None
    per_prompt: bool = False
    after: Sequence[Any] | None = None

    @property
    def order(self) -> str:
        """Names list and order, for cursors."""
        return f"evaluations {self.sort} {'desc' if self.descending else 'asc'}"


@routes.add(
    "GET",
    "/jobs/<id:job_id>/evaluations",
    access="jobs:read",
    query=EvaluationsQuery,
    answers={
        200: Answer("A page of evaluations", Page[EvaluationView], media=("text/csv",), headers=("Link",))
    },
)
def get_evaluations(job_id: str, query: EvaluationsQuery) -> Response:
    """Figures of a job's configurations, dense among them as level 0."""
    selection = Selection(
        job_id,
        query.sort,
        query.order == "desc",
        query.level,
        query.feasible,
        query.per_prompt,
    )
    database = current_service().database
    if query.format == "csv":
        return _csv(database, selection, query)
    selection = replace(selection, after=place_of_cursor(query.cursor, selection))
    items, last = database.read(read_evaluations, selection, query.limit)
    return page_of(items, None if last is None else make_cursor(selection.order, last))


def read_evaluations(
    session: Session, selection: Selection, limit: int
) -> tuple[list[EvaluationView], list[Any] | None]:
    """A page, and its last row's place when more follow; raises NotFound."""
    search = find_job(session, selection.job_id).job.parsed_spec.search
    floors = floors_of(session, selection.job_id, search)
    rows = list_evaluations(
        session,
        selection.job_id,
        limit=limit + 1,
        sort=selection.sort,
        descending=selection.descending,
        after=selection.after,
        depth=selection.level,
        floors=floors,
        measure=search.accept_measure,
        feasible=selection.feasible,
        prompts=selection.per_prompt,
    )
    views = [
        evaluation_view(row, floors, search.accept_measure, per_prompt=selection.per_prompt)
        for row in rows[:limit]
    ]
    return views, place_of(rows[limit - 1], selection.sort) if len(rows) > limit else None


def read_all(database: Database, selection: Selection) -> Iterator[list[EvaluationView]]:
    """All that is selected, from the first row on, some at a time; raises NotFound.

    The first ones are read before this returns, so that what can go wrong still gets a status of its own.
    """
    first = database.read(read_evaluations, selection, _ROWS_AT_A_TIME)
    return _following(database, selection, *first)


def _following(
    database: Database, selection: Selection, views: list[EvaluationView], last: list[Any] | None
) -> Iterator[list[EvaluationView]]:
    yield views
    while last is not None:
        views, last = database.read(read_evaluations, replace(selection, after=last), _ROWS_AT_A_TIME)
        yield views


def _csv(database: Database, selection: Selection, query: EvaluationsQuery) -> Response:
    if query.cursor is not None:
        raise InvalidInput("cursor", "csv gives all rows at once; leave the cursor out")
    if query.per_prompt:
        raise InvalidInput("per_prompt", "csv holds one row a configuration; ask for json")
    return csv_file(_csv_lines(read_all(database, selection)), f"evaluations-{selection.job_id}.csv")


def _csv_lines(parts: Iterator[list[EvaluationView]]) -> Iterator[str]:
    yield csv_text([_COLUMNS])
    for views in parts:
        yield csv_text([_cells(view) for view in views])


def _cells(view: EvaluationView) -> list[Any]:
    fields = view.model_dump(include=set(_COLUMNS))
    fields["skip"] = ",".join(map(str, view.skip)) or "dense"
    return [fields[name] for name in _COLUMNS]


def place_of_cursor(cursor: str | None, selection: Selection) -> list[Any] | None:
    """Where a cursor of this selection's order goes on; None without one. Raises InvalidInput for any other text."""
    place = read_cursor(cursor, selection.order)
    if place is None:
        return None
    if not isinstance(place, list) or len(place) != 2:
        raise bad_cursor()
    first, second = place
    if selection.sort == "skip":
        blocks = second if isinstance(second, list) else [None]
        fits = all(type(number) is int and 0 <= number < 2**15 for number in (first, *blocks))
    else:
        fits = isinstance(first, int | float) and isinstance(second, str)
    if not fits:
        raise bad_cursor()
    return place
