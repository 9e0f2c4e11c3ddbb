"""Paging: opaque cursors, and the Link header that leads to the next page."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import Response, request
from pydantic import Field

from api.requests import Query
from skipmap.canonical import bad_text
from skipmap.client.documents import Page
from skipmap.errors import InvalidInput

Item = TypeVar("Item")
_MOST_CHARACTERS = 4096
_LARGEST = 2**63


class PageQuery(Query):
    """How much of a list, and from where."""

    limit: int = Field(default=50, ge=1, le=200, description="Most items of the page.")
    cursor: str | None = Field(default=None, description="`next_cursor` of the page before.")


def make_cursor(kind: str, place: Any) -> str:
    """A cursor for a place in a list; ``kind`` names the list and its order."""
    text = json.dumps([kind, place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None, kind: str) -> Any:
    """The place that a cursor of this kind names, None without one; raises InvalidInput for any other text.

    Numbers of a place are finite and fit 64 bits, and its texts can be stored; the list itself checks the rest.
    """
    if cursor is None:
        return None
    try:
        if len(cursor) > _MOST_CHARACTERS:
            raise ValueError
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        made_for, place = json.loads(data)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise bad_cursor() from None
    if made_for != kind or not _is_storable(place):
        raise bad_cursor()
    return place


def bad_cursor() -> InvalidInput:
    """The error for a cursor that this list did not give out."""
    return InvalidInput("cursor", "is none of this list in this order; begin again without a cursor")


def page_of(items: Sequence[Item], next_cursor: str | None) -> Response:
    """A page as JSON, with a Link header when there is a next one."""
    response = json_response(Page(items=list(items), next_cursor=next_cursor))
    if next_cursor is not None:
        given = [(name, value) for name, value in request.args.items(multi=True) if name != "cursor"]
        query = urlencode([*given, ("cursor", next_cursor)])
        response.headers["Link"] = f'<{request.path}?{query}>; rel="next"'
    return response


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document as JSON."""
    return Response(document.model_dump_json(), status, headers, content_type="application/json")


def _is_storable(place: Any) -> bool:
    if isinstance(place, list):
        return all(_is_storable(part) for part in place)
    if isinstance(place, str):
        return bad_text(place) is None
    # A boolean is an integer to Python, and none of a cursor's places.
    if type(place) is int:
        return -_LARGEST <= place < _LARGEST
    return isinstance(place, float) and math.isfinite(place)
