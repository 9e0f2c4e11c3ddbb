"""Rendering: pages and their parts, with an answer of "nothing new" where nothing is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from flask import (
    Flask,
    Response,
    current_app,
    flash,
    g,
    get_flashed_messages,
    redirect,
    request,
    session,
    url_for,
)
from jinja2 import StrictUndefined
from werkzeug.wrappers import Response as BaseResponse

from api.problems import NOT_FOUND, ProblemError
from skipmap import __version__
from web.asked import is_asked_wrongly, leftovers
from web.assets import asset, build_id
from web.filters import FILTERS
from web.guard import csrf_token, current_session, may, without_mask

FRAGMENT = "X-Fragment"
PARTS = frozenset(
    {
        "channel",
        "command",
        "controls",
        "details",
        "dialog",
        "estimate",
        "figures",
        "list",
        "node",
        "nodes",
        "preview",
        "rows",
        "status",
        "summary",
        "workers",
    }
)
"""Blocks that scripts ask for. The others belong to the page around them, and cannot be made without it."""
_CACHING = "private, no-cache"
_VARY = "X-Fragment, Cookie"
_TAG_CHARACTERS = 32
_KINDS = ("good", "info", "warning", "bad")
_SENT = "sent"


def set_up_templates(app: Flask) -> None:
    """Make templates strict, and give them what every page needs."""
    environment = app.jinja_env
    environment.undefined = StrictUndefined
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters.update(FILTERS)
    environment.globals.update(
        asset=asset,
        csrf_token=csrf_token,
        leftovers=leftovers,
        may=may,
        sent_forms=lambda: _flashed()[1],
        toasts=lambda: _flashed()[0],
        version=__version__,
    )
    app.context_processor(_context)


def render(template: str, /, *, status: int = 200, tag: str | None = None, **context: Any) -> Response:
    """A page, or the block of it that the request's ``X-Fragment`` names, one of ``PARTS``.

    ``tag``: changes whenever the answer does; without it, it is made from the answer itself.
    """
    name = request.headers.get(FRAGMENT)
    body = _page(template, context) if name is None else _block(template, name, context)
    if name is None and status == 200 and is_asked_wrongly():
        status = 422
    response = Response(body, status, content_type="text/html; charset=utf-8")
    if g.get("shows_toasts", False):
        # Kept by the browser, it would show them again; and "nothing new" would lose them.
        response.headers["Cache-Control"] = "no-store"
        return response
    return _conditional(response, body, tag)


def refused(template: str, errors: Mapping[str, str], /, *, status: int = 422, **context: Any) -> Response:
    """A form once more, with what is wrong in it; ``context`` holds what was typed."""
    body = _page(template, {**context, "errors": dict(errors)})
    return Response(body, status, content_type="text/html; charset=utf-8")


def data_response(value: Any, *, tag: str | None = None) -> Response:
    """Data for a chart."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _conditional(Response(body, content_type="application/json"), body, tag)


def not_changed(tag: str) -> Response | None:
    """The answer for a browser that has what the tag stands for, None for any other."""
    # Before the first toast is read: a page that shows one is new.
    if "_flashes" in session or not request.if_none_match.contains_weak(_whole(tag)):
        return None
    response = Response(status=304)
    _mark(response, tag)
    return response


def done(message: str, location: str, *, kind: str = "good", form: str = "") -> BaseResponse:
    """After a change: on to a page that says so; ``form``: mark of the form that asked for it."""
    assert kind in _KINDS
    flash(message, kind)
    if form:
        note_sent(form)
    return redirect(location, 303)


def note_sent(form: str) -> None:
    """Let the next page tell scripts that a form has done its work, by its mark: what was typed is kept no longer."""
    flash(form, _SENT)


def _context() -> dict[str, Any]:
    found = current_session()
    endpoint = request.endpoint
    view: Any = current_app.view_functions.get(endpoint) if endpoint else None
    return {
        "me": found.principal if found else None,
        "session_ends": found.expires_at if found else None,
        "request_id": g.get("request_id", ""),
        "nav": _navigation(),
        "section": view.route.section if view is not None else "",
    }


def _navigation() -> list[tuple[str, str, str, bool]]:
    """Label, address, section and whether it is for whoever is signed in."""
    entries = (
        ("Jobs", "show_jobs", "jobs", may("jobs:read")),
        ("Compare", "compare_jobs", "compare", may("jobs:read")),
        ("Data", "show_sets", "sets", may("jobs:read")),
        ("Maps", "show_maps", "maps", may("maps:read")),
        ("Nodes", "show_nodes", "nodes", may("maps:read")),
        ("Workers", "show_workers", "workers", may("jobs:read")),
        ("Admin", "show_tokens", "admin", may("admin")),
    )
    return [(label, url_for(endpoint), section, visible) for label, endpoint, section, visible in entries]


def _page(template: str, context: Mapping[str, Any]) -> str:
    context = {**_extra(), **context}
    return current_app.jinja_env.get_template(template).render(context)


def _block(template: str, name: str, context: Mapping[str, Any]) -> str:
    found = current_app.jinja_env.get_template(template)
    made = found.new_context({**_extra(), **context})
    # Up to the first text, a template imports its macros and takes in the blocks of those that it extends.
    next(found.root_render_func(made), None)
    blocks = made.blocks.get(name) if name in PARTS else None
    if not blocks:
        raise ProblemError(NOT_FOUND, f"this page has no part {name!r}")
    return "".join(blocks[0](made))


def _extra() -> dict[str, Any]:
    context: dict[str, Any] = {}
    current_app.update_template_context(context)
    return context


def _flashed() -> tuple[list[tuple[str, str]], list[str]]:
    """Kind and message of what was done last, and marks of the forms that asked for it; each is shown once."""
    if "flashed" not in g:
        found = cast("list[tuple[str, str]]", get_flashed_messages(with_categories=True))
        g.shows_toasts = bool(found)
        g.flashed = (
            [entry for entry in found if entry[0] != _SENT],
            [mark for kind, mark in found if kind == _SENT],
        )
    return cast("tuple[list[tuple[str, str]], list[str]]", g.flashed)


def _conditional(response: Response, body: str, tag: str | None) -> Response:
    _mark(response, tag or hashlib.sha256(without_mask(body).encode()).hexdigest()[:_TAG_CHARACTERS])
    if response.status_code == 200:
        response.make_conditional(request)
    return response


def _mark(response: Response, tag: str) -> None:
    response.set_etag(_whole(tag), weak=True)
    response.headers["Cache-Control"] = _CACHING
    response.headers["Vary"] = _VARY


def _whole(tag: str) -> str:
    """A tag for this part of the page, as whoever is signed in sees it, from this release with these assets."""
    found = current_session()
    who = found.session_id if found else ""
    fragment = request.headers.get(FRAGMENT, "")
    return quote("-".join((tag, fragment, who[-12:], __version__, build_id())), safe="-")
