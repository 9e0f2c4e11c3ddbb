"""The API's description as a page."""

from __future__ import annotations

from functools import cache

from flask import current_app, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from api.openapi import document
from api.problems import KINDS
from web import api_reference
from web.rendering import render
from web.routes import Pages

pages = Pages(section="api_docs")
_MOST_CHARACTERS = 100


@pages.get("/docs", access="public")
def show_api_docs() -> Response:
    """Every call of the API, or those that a text finds."""
    text = request.args.get("find", "").strip()[:_MOST_CHARACTERS]
    found, is_whole = api_reference.find(text)
    shown = [(tag, [each for each in found if each.tag == tag]) for tag in api_reference.tags()]
    return render(
        "api_docs/show.html",
        text=text,
        groups=[(tag, [_drawn(each.id) for each in each_found]) for tag, each_found in shown if each_found],
        amount=len(found),
        is_whole=is_whole,
        total=len(api_reference.operations()),
        documents=_documents(),
        kinds=KINDS,
    )


@cache
def _drawn(name: str) -> Markup:
    """One operation. It is the same for everybody, so it is drawn once."""
    (operation,) = (each for each in api_reference.operations() if each.id == name)
    return _part("operation", operation)


@cache
def _documents() -> Markup:
    """The documents that calls take and answer."""
    return _part("documents", document()["components"]["schemas"])


def _part(name: str, given: object) -> Markup:
    module = current_app.jinja_env.get_template("api_docs/parts.html").module
    return Markup(getattr(module, name)(given))
