"""Calibration sets over HTTP: upload, list, preview, download, delete."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from flask import Response, g
from pydantic import Field
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.greenlets import aside
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.requests import Query
from api.routes import PREFIX, Answer, Routes
from api.service import current_service
from api.uploads import CSV, JSON_LINES, MEDIA_TYPES, Format, Upload, read_upload
from api.views import set_view
from models.accounts import Principal
from models.audit import record
from models.base import is_id
from models.calibration_sets import (
    CalibrationSet,
    SetFile,
    content_of,
    delete_set,
    find_set,
    list_sets,
    set_file,
    store_set,
)
from skipmap.calibration.items import Item
from skipmap.calibration.jsonl import items_of
from skipmap.calibration.lines import objects
from skipmap.calibration.mmlu import mmlu_items
from skipmap.calibration.spec_bench import questions_of
from skipmap.client.documents import CalibrationSetView, ItemPreview, Page

routes = Routes("calibration sets")
_LIST = "calibration sets"
_SHOWN_CHARACTERS = 2000
_SET = "/calibration-sets/<id:set_id>"


class UploadQuery(Query):
    """What the set is called."""

    name: str = Field(
        default="calibration set",
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="For people.",
    )


@routes.add(
    "POST",
    "/calibration-sets",
    access="jobs:write",
    query=UploadQuery,
    uploads=MEDIA_TYPES,
    answers={
        201: Answer("The new set", CalibrationSetView, headers=("Location",)),
        200: Answer("The set that has these bytes already", CalibrationSetView, headers=("Location",)),
    },
)
def create_set(query: UploadQuery) -> Response:
    """Upload prompts with references: JSON lines, Spec-Bench questions, or MMLU's CSV. Nothing is kept on an error."""
    service = current_service()
    upload = read_upload(service.settings, query.name)
    view, new = service.database.transaction(
        store_upload, current_principal(), upload, query.name, g.request_id
    )
    return json_response(view, 201 if new else 200, {"Location": f"{PREFIX}/calibration-sets/{view.id}"})


@routes.add(
    "GET",
    "/calibration-sets",
    access="jobs:read",
    query=PageQuery,
    answers={200: Answer("A page of sets, newest first", Page[CalibrationSetView], headers=("Link",))},
)
def get_sets(query: PageQuery) -> Response:
    """List calibration sets, newest first."""
    before = read_cursor(query.cursor, _LIST)
    if before is not None and not is_id(before):
        raise bad_cursor()

    def read(session: Session) -> list[CalibrationSetView]:
        return [set_view(row) for row in list_sets(session, limit=query.limit + 1, before=before)]

    found = current_service().database.read(read)
    page = found[: query.limit]
    return page_of(page, make_cursor(_LIST, page[-1].id) if len(found) > query.limit else None)


@routes.add("GET", _SET, access="jobs:read", answers={200: Answer("The set", CalibrationSetView)})
def get_set(set_id: str) -> Response:
    """One calibration set with its statistics."""
    view = current_service().database.read(lambda session: set_view(find_set(session, set_id)))
    return json_response(view)


@routes.add(
    "GET",
    f"{_SET}/items",
    access="jobs:read",
    query=PageQuery,
    answers={200: Answer("A page of items, in file order", Page[ItemPreview], headers=("Link",))},
)
def get_items(set_id: str, query: PageQuery) -> Response:
    """Preview the items of a set; long texts are cut."""
    kind = f"items {set_id}"
    start = read_cursor(query.cursor, kind)
    if start is None:
        start = 0
    if type(start) is not int or start < 0:
        raise bad_cursor()
    file, form = current_service().database.read(_fetched, set_id)
    items, after = aside(lambda: items_from(file, form, start, query.limit), len(file.content))
    return page_of([_preview(item) for item in items], None if after is None else make_cursor(kind, after))


@routes.add(
    "GET",
    f"{_SET}/content",
    access="jobs:read",
    answers={200: Answer("The file as it was uploaded", media=(JSON_LINES[0], CSV))},
)
def get_content(set_id: str) -> Response:
    """Download a set."""

    def read(session: Session) -> tuple[CalibrationSet, bytes]:
        return find_set(session, set_id), content_of(session, set_id)

    row, content = current_service().database.read(read)
    ending, media_type = ("csv", CSV) if row.statistics["format"] == "mmlu" else ("jsonl", JSON_LINES[0])
    response = Response(content, content_type=f"{media_type}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{set_id}.{ending}"'
    return response


@routes.add(
    "DELETE",
    _SET,
    access="jobs:write",
    answers={204: Answer("The set is gone")},
    problems=(409,),
)
def remove_set(set_id: str) -> Response:
    """Remove a set that no job uses."""
    actor, request_id = current_principal().user_id, g.request_id

    def work(session: Session) -> None:
        delete_set(session, set_id)
        record(session, actor, "calibration_set.delete", set_id, request_id)

    current_service().database.transaction(work)
    return Response(status=204)


def store_upload(
    session: Session, principal: Principal, upload: Upload, name: str, request_id: str | None = None
) -> tuple[CalibrationSetView, bool]:
    """Keep a checked file; returns its set and whether it is new."""
    row, new = store_set(session, upload.content, name, upload.items, upload.statistics, principal.user_id)
    if new:
        record(session, principal.user_id, "calibration_set.create", row.id, request_id)
    return set_view(row), new


def items_from(file: SetFile, kind: Format, start: int, limit: int) -> tuple[Sequence[Item], int | None]:
    """Some items of a set, and where the next ones begin: a byte of a file of lines, a row of a table.

    Raises InvalidInput when none can begin at ``start``.
    """
    if kind == "mmlu":
        with tempfile.TemporaryDirectory(prefix="skipmap-set-") as folder:
            items = list(islice(mmlu_items(file.write(Path(folder)), start), limit + 1))
        if not items:
            raise bad_cursor()
        return items[:limit], start + limit if len(items) > limit else None
    content = io.BytesIO(file.content)
    if start:
        if start >= len(file.content) or file.content[start - 1] != ord("\n"):
            raise bad_cursor()
        content.seek(start)
    lines: list[bytes] = []
    while len(lines) < limit and (line := content.readline()):
        if line.strip():
            lines.append(line)
    after = content.tell()
    if not lines:
        return [], None
    return _items(lines, kind), after if content.read(1) else None


def _fetched(session: Session, set_id: str) -> tuple[SetFile, Format]:
    kind: Format = find_set(session, set_id).statistics["format"]
    return set_file(session, set_id), kind


def _items(lines: Sequence[bytes], kind: Format) -> list[Item]:
    numbered = list(objects(lines, "set"))
    if kind == "jsonl":
        return items_of(numbered, "set")
    # One by one, for a page may hold questions of several categories.
    return [questions_of([one], "set", None)[0] for one in numbered]


def _preview(item: Item) -> ItemPreview:
    references = item.scored_references or (
        (item.choices[item.answer],) if item.choices and item.answer is not None else ()
    )
    return ItemPreview(
        id=_cut(item.id),
        turns=[_cut(turn) for turn in item.turns],
        references=[_cut(reference) for reference in references],
        category=item.category,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "\u2026"
