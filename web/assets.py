"""Assets: scripts and styles that set-up builds from ``web/frontend``, served under names that hold their hash."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from flask import Response, send_from_directory, url_for

from skipmap.errors import NotFound, SkipmapError
from web.routes import Pages

pages = Pages()
DIST = Path(__file__).resolve().parent / "static" / "dist"
_FOREVER = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
_LICENCES = "licenses.txt"
_ID_CHARACTERS = 12


class NotBuilt(SkipmapError):
    """The front end has not been built."""


def asset(name: str) -> str:
    """Address of a built file by its plain name, such as ``app.css``."""
    return url_for("get_asset", name=manifest()[name])


@pages.get("/static/<path:name>", access="public")
def get_asset(name: str) -> Response:
    """A built file."""
    if name not in manifest().values() and name not in _files_of_last_build():
        raise NotFound(f"there is no file {name!r}")
    response = send_from_directory(DIST, name)
    # All other names change with the content.
    response.headers["Cache-Control"] = _CHECKED if name == _LICENCES else _FOREVER
    return response


@cache
def build_id() -> str:
    """Another one for each build."""
    return hashlib.sha256(json.dumps(manifest()).encode()).hexdigest()[:_ID_CHARACTERS]


@cache
def manifest() -> dict[str, str]:
    """Names of the built files by their plain names; raises NotBuilt."""
    try:
        found: dict[str, str] = json.loads((DIST / "manifest.json").read_text())
    except FileNotFoundError:
        raise NotBuilt("the dashboard's scripts and styles are not built; run 'make setup'") from None
    return found


@cache
def _files_of_last_build() -> frozenset[str]:
    """Files that the build before has left: pages that were opened then still fetch some of them."""
    try:
        return frozenset(json.loads((DIST / "earlier.json").read_text()))
    except FileNotFoundError:
        return frozenset()
