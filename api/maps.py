"""Maps and their versions over HTTP: publish, list, read, compare."""

from __future__ import annotations

from typing import Any

from flask import Response, g, request
from pydantic import Field
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.greenlets import aside
from api.map_views import map_views, version_view
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.publishing import publish
from api.requests import Query, idempotency_key
from api.routes import PREFIX, Answer, Routes
from api.service import current_service
from models.maps import find_map, list_maps, list_versions, version_content
from skipmap.client.documents import Page
from skipmap.client.maps import MapView, PublishRequest, VersionView
from skipmap.maps.diff import MapDiff, diff_maps
from skipmap.maps.router import MAX_ROUTER_BYTES
from skipmap.maps.schema import read_map

routes = Routes("maps")
_LIST = "maps"
_IMMUTABLE = "private, max-age=31536000, immutable"
_REST_BYTES = 256 << 10
_LARGEST = 10**9 - 1


class DiffQuery(Query):
    """Which two versions."""

    old: int = Field(alias="from", ge=1, le=_LARGEST, description="The version to begin with.")
    new: int = Field(alias="to", ge=1, le=_LARGEST, description="The version to compare it with.")


@routes.add(
    "GET",
    "/maps",
    access="maps:read",
    query=PageQuery,
    answers={200: Answer("A page of maps by name", Page[MapView], headers=("Link",))},
)
def get_maps(query: PageQuery) -> Response:
    """List maps with their channels."""
    after = read_cursor(query.cursor, _LIST)
    if after is not None and not isinstance(after, str):
        raise bad_cursor()

    def read(session: Session) -> tuple[list[MapView], bool]:
        rows = list_maps(session, limit=query.limit + 1, after=after)
        return map_views(session, rows[: query.limit]), len(rows) > query.limit

    page, more = current_service().database.read(read)
    return page_of(page, make_cursor(_LIST, page[-1].name) if more else None)


@routes.add("GET", "/maps/<name:map_name>", access="maps:read", answers={200: Answer("The map", MapView)})
def get_map(map_name: str) -> Response:
    """One map with its channels."""
    return json_response(
        current_service().database.read(lambda session: map_views(session, [find_map(session, map_name)])[0])
    )


@routes.add(
    "POST",
    "/maps/<name:map_name>/versions",
    access="maps:publish",
    body=PublishRequest,
    body_bytes=MAX_ROUTER_BYTES + _REST_BYTES,
    request_headers={
        "Idempotency-Key": "A text of your own: the same request sent again with it gives the first version."
    },
    answers={
        201: Answer("The new version", VersionView, headers=("Location",)),
        200: Answer("The version that this idempotency key made before", VersionView, headers=("Location",)),
    },
    problems=(409,),
)
def create_version(map_name: str, body: PublishRequest) -> Response:
    """Publish operating points of finished jobs as the next version of a map, which the first one makes."""
    view, is_new = publish(
        current_service(), current_principal(), map_name, body, idempotency_key(), g.request_id
    )
    location = f"{PREFIX}/maps/{map_name}/versions/{view.version}"
    return json_response(view, 201 if is_new else 200, {"Location": location})


@routes.add(
    "GET",
    "/maps/<name:map_name>/versions",
    access="maps:read",
    query=PageQuery,
    answers={200: Answer("A page of versions, newest first", Page[VersionView], headers=("Link",))},
)
def get_versions(map_name: str, query: PageQuery) -> Response:
    """List the versions of a map."""
    kind = f"versions {map_name}"
    before = read_cursor(query.cursor, kind)
    if before is not None and not (type(before) is int and 0 < before < 2**31):
        raise bad_cursor()

    def read(session: Session) -> list[VersionView]:
        find_map(session, map_name)
        rows = list_versions(session, map_name, limit=query.limit + 1, before=before)
        return [version_view(row) for row in rows]

    found = current_service().database.read(read)
    page = found[: query.limit]
    return page_of(page, make_cursor(kind, page[-1].version) if len(found) > query.limit else None)


@routes.add(
    "GET",
    "/maps/<name:map_name>/versions/<number:version>",
    access="maps:read",
    request_headers={"If-None-Match": "The ETag of an earlier answer gives 304."},
    answers={
        200: Answer(
            "A document of the form skipmap.map/1, as it is digested",
            dict[str, Any],
            headers=("ETag", "Cache-Control"),
        ),
        304: Answer("It is what the caller has; versions never change", headers=("ETag", "Cache-Control")),
    },
)
def get_version(map_name: str, version: int) -> Response:
    """The document of a version: its bytes never change."""
    digest, content = current_service().database.read(version_content, map_name, version)
    etag = f"sha256-{digest}"
    known = request.if_none_match.contains_weak(etag)
    response = Response(status=304) if known else Response(content, content_type="application/json")
    response.set_etag(etag)
    response.headers["Cache-Control"] = _IMMUTABLE
    response.headers["Vary"] = "Authorization"
    return response


@routes.add(
    "GET",
    "/maps/<name:map_name>/diff",
    access="maps:read",
    query=DiffQuery,
    answers={200: Answer("Changes by domain, and of what all domains share", MapDiff)},
)
def get_diff(map_name: str, query: DiffQuery) -> Response:
    """What changes from one version to another."""

    def read(session: Session) -> tuple[bytes, bytes]:
        _, before = version_content(session, map_name, query.old)
        _, after = version_content(session, map_name, query.new)
        return before, after

    before, after = current_service().database.read(read)
    # Two large ones take half a second, in which other requests go on.
    found = aside(lambda: diff_maps(read_map(before), read_map(after)), len(before) + len(after))
    return json_response(found)
