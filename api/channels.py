"""Channels over HTTP: what nodes fetch and wait for, and how a channel is moved."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from flask import Response, g, request
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.envelopes import Snapshot
from api.map_views import channel_views, move_view
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.problems import PRECONDITION_REQUIRED, ProblemError
from api.publishing import move_channel
from api.routes import PREFIX, Answer, Routes
from api.service import Service, current_service
from models.channels import list_moves
from models.maps import find_map
from skipmap.client.documents import Page
from skipmap.client.maps import LONGEST_WAIT_SECONDS, ChannelList, MoveRequest, MoveView
from skipmap.errors import InvalidInput
from skipmap.maps.channel import sequence_etag

routes = Routes("maps")
_WAIT = re.compile(r'wait\s*=\s*"?([0-9]{1,6})"?', re.ASCII)
_CACHED = ("ETag", "Cache-Control", "Vary", "Preference-Applied")


@routes.add(
    "GET",
    "/maps/<name:map_name>/channels",
    access="maps:read",
    answers={200: Answer("The channels of the map", ChannelList)},
)
def get_channels(map_name: str) -> Response:
    """Where the channels of a map point to, with the sequence that a move has to name."""

    def read(session: Session) -> ChannelList:
        find_map(session, map_name)
        return ChannelList(items=channel_views(session, [map_name]))

    return json_response(current_service().database.read(read))


@routes.add(
    "GET",
    "/maps/<name:map_name>/channels/<name:channel>",
    access="maps:read",
    rate="node",
    request_headers={
        "If-None-Match": "The ETag of an earlier answer: nothing new gives 304 without a body.",
        "Prefer": f"`wait=N`: with If-None-Match, wait up to N seconds ({LONGEST_WAIT_SECONDS} at most) for news.",
        "Accept-Encoding": "With `gzip` the envelope comes packed.",
    },
    answers={
        200: Answer("The signed envelope (DSSE), media type of its payload inside", dict, headers=_CACHED),
        304: Answer("Nothing has changed", headers=_CACHED),
    },
)
def get_channel(map_name: str, channel: str) -> Response:
    """What nodes fetch: the document of the version that the channel points to, in a signed envelope."""
    service = current_service()
    snapshot = service.envelopes.current(map_name, channel)
    # A request for the head alone asks how things are, not to be told. To be held back is a wish: when too many
    # are, the answer comes at once.
    may_wait = request.method == "GET" and not service.channels.is_full
    seconds = _wait_seconds() if may_wait else None
    if seconds and _is_known(snapshot):
        snapshot = _news(service, snapshot, seconds)
    response = _envelope(snapshot)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Authorization, Accept-Encoding"
    if seconds is not None:
        response.headers["Preference-Applied"] = f"wait={seconds}"
    return response


@routes.add(
    "PUT",
    "/maps/<name:map_name>/channels/<name:channel>",
    access="maps:publish",
    body=MoveRequest,
    request_headers={
        "If-Match": '`"seq-N"`: the sequence that the channel is at, see the list of channels.',
        "If-None-Match": "`*` instead, for a channel that is not there yet.",
    },
    answers={
        200: Answer("The move", MoveView, headers=("ETag",)),
        201: Answer("The first move of a new channel", MoveView, headers=("ETag", "Location")),
    },
    problems=(412, 428),
)
def put_channel(map_name: str, channel: str, body: MoveRequest) -> Response:
    """Promote or roll back: let a channel point to another version. Every move gets the next sequence.

    A promotion (release, deployment) leads to a newer version. A rollback (undo, revert) leads back to an older one,
    which is there unchanged. Nodes follow with their next poll.
    """
    view = move_channel(
        current_service(), current_principal(), map_name, channel, body, _condition(), g.request_id
    )
    response = json_response(view)
    response.headers["ETag"] = sequence_etag(view.sequence)
    if view.from_version is None:
        response.status_code = 201
        response.headers["Location"] = f"{PREFIX}/maps/{map_name}/channels/{channel}"
    return response


@routes.add(
    "GET",
    "/maps/<name:map_name>/channels/<name:channel>/history",
    access="maps:read",
    query=PageQuery,
    answers={200: Answer("A page of moves, newest first", Page[MoveView], headers=("Link",))},
)
def get_history(map_name: str, channel: str, query: PageQuery) -> Response:
    """Who moved a channel, when, why, from where to where."""
    kind = f"history {map_name} {channel}"
    before = read_cursor(query.cursor, kind)
    if before is not None and not (type(before) is int and 0 < before < 2**31):
        raise bad_cursor()

    def read(session: Session) -> list[MoveView]:
        found = list_moves(session, map_name, channel, limit=query.limit + 1, before=before)
        return [move_view(row, actor) for row, actor in found]

    found = current_service().database.read(read)
    page = found[: query.limit]
    return page_of(page, make_cursor(kind, page[-1].sequence) if len(found) > query.limit else None)


def _news(service: Service, snapshot: Snapshot, seconds: int) -> Snapshot:
    """Wait until the channel hands out what the caller does not have; the last that is known when nothing comes."""
    until = time.monotonic() + seconds
    while _is_known(snapshot) and (left := until - time.monotonic()) > 0:
        newer = service.channels.wait(snapshot, left)
        if newer is None:
            break
        snapshot = newer
    return snapshot


def _envelope(snapshot: Snapshot) -> Response:
    packed = _takes_gzip()
    if _is_known(snapshot):
        response = Response(status=304)
    else:
        response = Response(snapshot.packed if packed else snapshot.body, content_type="application/json")
        if packed:
            response.headers["Content-Encoding"] = "gzip"
    # A strong ETag names bytes, and packed ones are others.
    response.set_etag(snapshot.etag, weak=packed)
    return response


def _is_known(snapshot: Snapshot) -> bool:
    return request.if_none_match.contains_weak(snapshot.etag)


def _takes_gzip() -> bool:
    accepted = {coding.lower(): quality for coding, quality in request.accept_encodings}
    return accepted.get("gzip", accepted.get("*", 0)) > 0


def _wait_seconds() -> int | None:
    """The whole seconds that the caller would wait; None unless it says so. What cannot be read is no preference."""
    for preference in request.headers.get("Prefer", "").split(","):
        found = _WAIT.fullmatch(preference.partition(";")[0].strip().lower())
        if found:
            return min(int(found[1]), LONGEST_WAIT_SECONDS)
    return None


def _condition() -> Callable[[int | None], bool]:
    """Which sequence a move may follow, as the request's conditions say."""
    match, none_match = request.if_match, request.if_none_match
    if match.star_tag:
        raise InvalidInput(
            "If-Match", '* says nothing of where the channel is; give "seq-N", see GET .../channels'
        )
    if match:
        return lambda sequence: sequence is not None and match.contains(f"seq-{sequence}")
    if not none_match:
        raise ProblemError(
            PRECONDITION_REQUIRED,
            'say where the channel is believed to be: If-Match: "seq-N" (see GET .../channels), or If-None-Match: * '
            "for a channel that is not there yet",
        )
    if not none_match.star_tag:
        raise InvalidInput("If-None-Match", "only * is taken here; for a channel that is there give If-Match")
    return lambda sequence: sequence is None
