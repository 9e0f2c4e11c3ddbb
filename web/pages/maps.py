"""Pages of maps: the list, one map with its versions, one version, what changes between two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from flask import Response, request, url_for
from sqlalchemy.orm import Session

from api.greenlets import aside
from api.map_views import map_views, version_view
from api.paging import make_cursor
from api.service import current_service
from models.maps import find_map, find_version, list_maps, list_versions, version_content
from models.nodes import channel_counts
from models.queries import job_marks
from skipmap.client.maps import ChannelView, MapView, VersionView
from skipmap.errors import InvalidInput
from skipmap.maps.diff import MapDiff, diff_maps
from skipmap.maps.schema import MapDocument, read_map
from web.asked import place_asked
from web.rendering import render
from web.routes import Pages
from web.views.map_diff import domain_changes, other_changes, shared_changes
from web.views.map_figures import figures, speedup_chart, verdict
from web.views.map_versions import (
    VersionRow,
    confusion_rows,
    lossy_words,
    params_words,
    version_rows,
)

pages = Pages()
MAPS_A_PAGE = 50
VERSIONS_A_PAGE = 25
_MOST_OFFERED = 200
_MOST_SHOWN_BYTES = 256 << 10


@dataclass(frozen=True)
class _MapSeen:
    """A map with its nodes, those of each channel apart."""

    view: MapView
    nodes: dict[str, int]


@pages.get("/maps", access="maps:read")
def show_maps() -> Response:
    """All maps with their channels."""
    after = place_asked("maps", lambda place: isinstance(place, str))

    def read(session: Session) -> tuple[list[_MapSeen], bool]:
        rows = list_maps(session, limit=MAPS_A_PAGE + 1, after=after)
        views = map_views(session, rows[:MAPS_A_PAGE])
        nodes = channel_counts(session, [view.name for view in views])
        return [_MapSeen(view, nodes[view.name]) for view in views], len(rows) > MAPS_A_PAGE

    maps, more = current_service().database.read(read)
    return render(
        "maps/maps.html",
        maps=maps,
        next_cursor=make_cursor("maps", maps[-1].view.name) if more else None,
        is_first=after is None,
    )


@pages.get("/maps/<name:name>", access="maps:read")
def show_map(name: str) -> Response:
    """One map: where its channels point to, its versions, and two of them to compare."""
    kind = f"versions {name}"
    before = place_asked(kind, lambda place: type(place) is int and 0 < place < 2**31)

    def read(session: Session) -> tuple[_MapSeen, list[VersionRow], bool]:
        (view,) = map_views(session, [find_map(session, name)])
        rows = list_versions(session, name, limit=VERSIONS_A_PAGE + 1, before=before)
        seen = _MapSeen(view, channel_counts(session, [name])[name])
        return seen, version_rows(session, rows[:VERSIONS_A_PAGE]), len(rows) > VERSIONS_A_PAGE

    found, versions, more = current_service().database.read(read)
    return render(
        "maps/map.html",
        map=found.view,
        nodes=found.nodes,
        versions=versions,
        channels_at=_channels_at(found.view.channels),
        offered=_offered(found.view),
        next_cursor=make_cursor(kind, versions[-1].view.version) if more else None,
        is_first=before is None,
    )


@pages.get("/maps/<name:name>/versions/<number:version>", access="maps:read")
def show_version(name: str, version: int) -> Response:
    """One version whole: what each domain skips, why, how sure that is, and where it came from."""

    def read(session: Session) -> tuple[MapView, VersionRow, bytes, set[str]]:
        row = find_version(session, name, version)
        (view,) = map_views(session, [find_map(session, name)])
        _, content = version_content(session, name, version)
        jobs = set(job_marks(session, sorted(set(row.jobs.values()))))
        return view, version_rows(session, [row])[0], content, jobs

    found, row, content, known_jobs = current_service().database.read(read)
    document = aside(lambda: read_map(content), len(content))
    router = document.router
    confusion = router.confusion if router is not None else None
    here = url_for("show_version", name=name, version=version)
    return render(
        "maps/version.html",
        map=found,
        row=row,
        view=row.view,
        document=document,
        known_jobs=known_jobs,
        figures=figures,
        verdict=verdict,
        speedups=speedup_chart(document.domains, {one: f"{here}#domain-{one}" for one in document.domains}),
        lossy=lossy_words(document.draft),
        params=params_words(document.draft.params),
        confusion=confusion,
        confusion_rows=confusion_rows(confusion) if confusion is not None else [],
        unrouted=sorted(document.domains.keys() - router.domains.keys()) if router is not None else [],
        channels_here=[view for view in found.channels if view.version == version],
        size=len(content),
        shown=_readable(content),
    )


@pages.get("/maps/<name:name>/versions/<number:version>/document", access="maps:read")
def download_version(name: str, version: int) -> Response:
    """The document as it is stored: these bytes have the version's digest."""
    digest, content = current_service().database.read(version_content, name, version)
    response = Response(content, content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}-{version}.json"'
    # The bytes never change, but the right to read them may end: browsers ask each time, and mostly hear "nothing new".
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Cookie"
    response.set_etag(f"sha256-{digest}")
    response.make_conditional(request)
    return response


@pages.get("/maps/<name:name>/diff", access="maps:read")
def show_diff(name: str) -> Response:
    """What changes from one version to another."""
    view = current_service().database.read(lambda session: map_views(session, [find_map(session, name)])[0])
    new = _number("to", view.last_version)
    old = _number("from", max(1, new - 1))

    def read(session: Session) -> tuple[list[VersionView], list[bytes]]:
        rows = [find_version(session, name, number) for number in (old, new)]
        contents = [version_content(session, name, number)[1] for number in (old, new)]
        return [version_view(row) for row in rows], contents

    versions, contents = current_service().database.read(read)

    def compare() -> tuple[MapDiff, list[MapDocument]]:
        documents = [read_map(content) for content in contents]
        return diff_maps(*documents), documents

    # Two large ones take half a second, in which other requests go on.
    found, documents = aside(compare, sum(map(len, contents)))
    before, after = versions
    return render(
        "maps/diff.html",
        map=view,
        before=before,
        after=after,
        num_layers=max(document.target.num_layers for document in documents),
        changes=domain_changes(before, after),
        others={domain: other_changes(found, domain) for domain in found.changed},
        shared=shared_changes(found),
        offered=_offered(view, old, new),
    )


def _channels_at(channels: Sequence[ChannelView]) -> dict[int, list[str]]:
    """Names of the channels that point to a version."""
    found: dict[int, list[str]] = {}
    for view in channels:
        found.setdefault(view.version, []).append(view.channel)
    return found


def _offered(view: MapView, *chosen: int) -> list[tuple[str, str]]:
    """Versions to choose from, the newest first, with the channels that point to them: numbers have no gaps.

    ``chosen``: these are among them, however old they are.
    """
    at = _channels_at(view.channels)
    newest = range(view.last_version, max(0, view.last_version - _MOST_OFFERED), -1)
    return [
        (str(version), f"{version} ({', '.join(at[version])})" if version in at else str(version))
        for version in sorted({*newest, *chosen}, reverse=True)
    ]


def _number(field: str, otherwise: int) -> int:
    given = request.args.get(field, "")
    if not given:
        return otherwise
    if not given.isascii() or not given.isdigit() or not 0 < len(given) < 10 or int(given) == 0:
        raise InvalidInput(field, f"{given!r} given; give the number of a version, such as {otherwise}")
    return int(given)


def _readable(content: bytes) -> str | None:
    """The document with line breaks; None when it is too large to be read on a page."""
    if len(content) > _MOST_SHOWN_BYTES:
        return None
    return json.dumps(json.loads(content), indent=2, ensure_ascii=False)
