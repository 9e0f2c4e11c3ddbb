"""Pages of calibration sets: the list with its upload, one set with its prompts, and its removal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flask import Response, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from api import sets
from api.auth import current_principal
from api.greenlets import aside
from api.paging import make_cursor
from api.service import current_service
from api.sets import items_from
from api.views import set_view
from models.calibration_sets import find_set, list_sets
from models.set_uses import jobs_with, uses_of
from skipmap.client.documents import CalibrationSetView
from skipmap.errors import InvalidInput
from web.asked import place_asked
from web.filters import plural
from web.forms.choices import set_label
from web.forms.uploads import FILE, sent_file, store_file, told
from web.guard import current_is_fetch
from web.rendering import done, refused, render
from web.routes import Pages
from web.views.items import shown_item
from web.views.jobs import name_of
from web.views.set_files import file_of

pages = Pages()
SETS_A_PAGE = 50
ITEMS_A_PAGE = 20
_JOBS_SHOWN = 10
_LIST = "calibration sets"
_TEMPLATE = "sets/list.html"


@dataclass(frozen=True)
class _SetRow:
    """A set in the list; ``jobs``: how many use it."""

    view: CalibrationSetView
    jobs: int


@pages.get("/calibration-sets", access="jobs:read")
def show_sets() -> Response:
    """All sets, newest first, and the form that adds one."""
    return render(_TEMPLATE, **_list(), errors={}, problems=(), typed={})


@pages.post("/calibration-sets", access="jobs:write", upload=True)
def upload_set() -> ResponseReturnValue:
    """Check a file and keep it as a set."""
    typed = {"name": request.form.get("name", "")}
    file = sent_file(request.files)
    try:
        if file is None:
            raise InvalidInput(FILE, "no file is chosen; choose one, or drop it here")
        view, new = store_file(current_service(), current_principal(), file, typed["name"].strip() or None)
    except InvalidInput as error:
        return _refused(error, typed)
    location = url_for("show_set", set_id=view.id)
    if current_is_fetch():
        return _answer(view, location, new=new)
    return done(_stored(view, new=new), location, kind="good" if new else "info")


@pages.get("/calibration-sets/<id:set_id>", access="jobs:read")
def show_set(set_id: str) -> Response:
    """One set: its figures, its prompts page by page, and the jobs that use it."""
    kind = f"items {set_id}"
    start = place_asked(kind, lambda place: type(place) is int and place >= 0) or 0

    def read(session: Session) -> tuple[CalibrationSetView, dict[str, Any]]:
        view = set_view(find_set(session, set_id))
        jobs = jobs_with(session, set_id, limit=_JOBS_SHOWN)
        return view, {"jobs": jobs, "uses": uses_of(session, [set_id]).get(set_id, 0)}

    service = current_service()
    view, used = service.database.read(read)
    file = file_of(service, set_id)
    form = view.statistics["format"]
    items, after = aside(lambda: items_from(file, form, start, ITEMS_A_PAGE), len(file.content))
    here = url_for("show_set", set_id=set_id)
    return render(
        "sets/set.html",
        view=view,
        items=[(item, shown_item(item)) for item in items],
        next_url=None
        if after is None
        else url_for("show_set", set_id=set_id, cursor=make_cursor(kind, after)),
        first_url=here if start else None,
        name_of=name_of,
        **used,
    )


@pages.get("/calibration-sets/<id:set_id>/content", access="jobs:read")
def download_set(set_id: str) -> Response:
    """The file as it was uploaded."""
    return sets.get_content(set_id)


@pages.get("/calibration-sets/<id:set_id>/delete", access="jobs:write")
def confirm_set_removal(set_id: str) -> Response:
    """Ask before a set is removed; one that jobs use stays."""

    def read(session: Session) -> dict[str, Any]:
        return {
            "view": set_view(find_set(session, set_id)),
            "jobs": jobs_with(session, set_id, limit=_JOBS_SHOWN),
            "uses": uses_of(session, [set_id]).get(set_id, 0),
        }

    found = current_service().database.read(read)
    return render(
        "sets/in_use.html" if found["jobs"] else "sets/delete.html",
        **found,
        name_of=name_of,
        action=url_for("remove_set", set_id=set_id),
        back=url_for("show_set", set_id=set_id),
        danger=True,
    )


@pages.post("/calibration-sets/<id:set_id>/delete", access="jobs:write")
def remove_set(set_id: str) -> ResponseReturnValue:
    """Remove a set that no job uses."""
    sets.remove_set(set_id)
    return done("The calibration set is removed.", url_for("show_sets"))


def _list() -> dict[str, Any]:
    before = place_asked(_LIST)

    def read(session: Session) -> list[_SetRow]:
        views = [set_view(row) for row in list_sets(session, limit=SETS_A_PAGE + 1, before=before)]
        uses = uses_of(session, [view.id for view in views])
        return [_SetRow(view, uses.get(view.id, 0)) for view in views]

    found = current_service().database.read(read)
    page = found[:SETS_A_PAGE]
    more = len(found) > SETS_A_PAGE
    return {
        "sets": page,
        "next_url": url_for("show_sets", cursor=make_cursor(_LIST, page[-1].view.id)) if more else None,
        "first_url": url_for("show_sets") if before is not None else None,
    }


def _refused(error: InvalidInput, typed: dict[str, str]) -> Response:
    field = "name" if error.field == "name" else FILE
    text, problems = told(error)
    if current_is_fetch():
        document = {"title": "This file cannot be used", "detail": text, "field": field, "problems": problems}
        return Response(json.dumps(document), 422, content_type="application/json")
    return refused(_TEMPLATE, {field: text}, **_list(), problems=problems, typed=typed)


def _answer(view: CalibrationSetView, location: str, *, new: bool) -> Response:
    document = {
        "id": view.id,
        "label": set_label(view),
        "text": _stored(view, new=new),
        "location": location,
    }
    return Response(json.dumps(document), 201 if new else 200, content_type="application/json")


def _stored(view: CalibrationSetView, *, new: bool) -> str:
    if new:
        return f"{plural(view.items, 'prompt')} of {view.name} stored."
    return f"The same prompts are there already, as {view.name}."
