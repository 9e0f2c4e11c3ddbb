"""Assets: scripts and styles that set-up builds from ``web/frontend``, served under names that hold their hash."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from flask import Response, send_from_directory, url_for

from skipmap.errors import NotFound, SkipmapError
from web.routes import Pages

pages = Pages()
DIST = Path(__file__).resolve().parent / "static" / "dist"
_FOREVER = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
_LICENCES = "licenses.txt"
_MANIFEST = "manifest.json"
_ID_CHARACTERS = 12


class NotBuilt(SkipmapError):
    """The front end has not been built."""


def asset(name: str) -> str:
    """Address of a built file by its plain name, such as ``app.css``."""
    return url_for("get_asset", name=manifest()[name])


@pages.get("/static/<path:name>", access="public")
def get_asset(name: str) -> Response:
    """A built file."""
    build = _build()
    if name not in build.names.values() and name not in build.earlier:
        raise NotFound(f"there is no file {name!r}")
    response = send_from_directory(DIST, name)
    # All other names change with the content.
    response.headers["Cache-Control"] = _CHECKED if name == _LICENCES else _FOREVER
    return response


def build_id() -> str:
    """Another one for each build."""
    return _build().id


def manifest() -> dict[str, str]:
    """Names of the built files by their plain names; raises NotBuilt."""
    return _build().names


@dataclass(frozen=True)
class _Build:
    """What a build has made. ``state``: of its manifest's file; ``earlier``: what the build before has left."""

    state: tuple[int, int, int]
    names: dict[str, str]
    earlier: frozenset[str]
    id: str


_last: _Build | None = None


def _build() -> _Build:
    """The build as it lies there now: one that is made while the server runs is taken up with the next page."""
    global _last
    known = _last
    try:
        found = (DIST / _MANIFEST).stat()
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        if known is None or known.state != state:
            known = _last = _read(state)
    except FileNotFoundError:
        # For a moment the folder is not there: a new build takes the place of the last one.
        if known is None:
            raise NotBuilt("the dashboard's scripts and styles are not built; run 'make setup'") from None
    return known


def _read(state: tuple[int, int, int]) -> _Build:
    text = (DIST / _MANIFEST).read_text()
    try:
        # Pages that were opened before the last build still fetch some of these.
        earlier = frozenset(json.loads((DIST / "earlier.json").read_text()))
    except FileNotFoundError:
        earlier = frozenset()
    names: dict[str, str] = json.loads(text)
    return _Build(
        state, names, earlier, hashlib.sha256(json.dumps(names).encode()).hexdigest()[:_ID_CHARACTERS]
    )
