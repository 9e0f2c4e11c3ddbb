"""The API's own description: the OpenAPI document, and a page to read it that needs no script and no network."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any

from flask import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from api.routes import Answer, Routes

routes = Routes("description")
_CACHED = "public, max-age=300"


@routes.add(
    "GET",
    "/openapi.json",
    access="public",
    answers={200: Answer("This document", dict[str, Any])},
)
def get_openapi() -> Response:
    """The OpenAPI 3.1 document."""
    from api.openapi import document

    response = Response(json.dumps(document(), ensure_ascii=False), content_type="application/json")
    response.headers["Cache-Control"] = _CACHED
    return response


@routes.add("GET", "/docs", access="public", answers={200: Answer("A page to read", media=("text/html",))})
def get_docs() -> Response:
    """The description of the API as a page."""
    page, policy = _page()
    response = Response(page, content_type="text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cache-Control"] = _CACHED
    return response


@cache
def _page() -> tuple[str, str]:
    from api.openapi import document
    from api.problems import KINDS

    templates = Environment(
        loader=PackageLoader("api"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert templates.loader is not None
    style, _, _ = templates.loader.get_source(templates, "docs.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = templates.get_template("docs.html").render(api=document(), style=style, kinds=KINDS)
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
    return page, policy
