"""Pages of channels: where one points to, how far its nodes are, and moving it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Response, g, redirect, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from api.map_views import map_views
from api.paging import make_cursor
from api.problems import UNAVAILABLE, ProblemError
from api.publishing import move_channel
from api.requests import validated
from api.service import current_service
from models.base import NUMBER_PATTERN
from models.errors import Stale
from models.maps import NAME_PATTERN, find_map, find_version
from skipmap.client.maps import ChannelView, MapView, MoveRequest, MoveView
from skipmap.errors import InvalidInput
from skipmap.maps.schema import MAX_REASON_CHARACTERS
from web.asked import place_asked
from web.guard import may, service_and_principal
from web.rendering import done, refused, render
from web.routes import Pages
from web.views.map_figures import figures, verdict
from web.views.map_moves import (
    Consequences,
    find_channel,
    read_channel,
    read_consequences,
    read_moves,
    way_back,
)
from web.views.map_rollout import rollout
from web.views.node_fleet import channel_fleet
from web.views.node_live import render_live

pages = Pages()
MOVES_A_PAGE = 25
_MOST_REASONS = 5
_MOST_OFFERED = 200
_NUMBER = re.compile(NUMBER_PATTERN, re.ASCII)
_NAME_RULE = "Give small letters, digits, dots, dashes and underscores, at most 64, a letter or digit first"


@pages.get("/maps/<name:name>/channels/<name:channel>", access="maps:read")
def show_channel(name: str, channel: str) -> Response:
    """Where a channel points to, how far its nodes are with that, and every move."""
    kind = f"history {name} {channel}"
    before = place_asked(kind, lambda place: type(place) is int and 0 < place < 2**31)
    service = current_service()

    def read(session: Session) -> dict[str, Any]:
        view = read_channel(session, name, channel)
        moves = read_moves(session, name, channel, limit=MOVES_A_PAGE + 1, before=before)
        page, more = moves[:MOVES_A_PAGE], len(moves) > MOVES_A_PAGE
        return {
            "view": view,
            "last_version": find_map(session, name).last_version,
            "moves": page,
            "next_cursor": make_cursor(kind, page[-1].sequence) if more else None,
            "back_to": way_back(session, name, channel),
        }

    found = service.database.read(read)
    view: ChannelView = found["view"]
    fleet = channel_fleet(service, name, channel, view.sequence, most_reasons=_MOST_REASONS + 1)
    shown = found | {
        "rollout": rollout(view.version, fleet.groups),
        "reasons": fleet.reasons,
        "can_sign": service.envelopes.signer.usable() is not None,
        "may_move": may("maps:publish"),
    }
    last: int = shown["last_version"]
    return render_live(
        "channels/channel.html",
        shown,
        section="maps",
        name=name,
        channel=channel,
        most_reasons=_MOST_REASONS,
        is_first=before is None,
        offered=[(str(number), str(number)) for number in range(last, max(0, last - _MOST_OFFERED), -1)],
        **shown,
    )


@pages.get("/maps/<name:name>/versions/<number:version>/promote", access="maps:publish")
def choose_channel(name: str, version: int) -> BaseResponse:
    """Which channel shall point to a version: one that is there, or a new one."""
    given = request.args.get("channel", "").strip()
    if re.fullmatch(NAME_PATTERN, given):
        return redirect(url_for("move_channel_form", name=name, channel=given, version=version), 303)

    def read(session: Session) -> MapView:
        find_version(session, name, version)
        return map_views(session, [find_map(session, name)])[0]

    shown: dict[str, Any] = {
        "section": "maps",
        "map": current_service().database.read(read),
        "number": version,
        "given": given,
    }
    if given:
        return refused("channels/choose.html", {"channel": _NAME_RULE}, **shown)
    return render("channels/choose.html", errors={}, **shown)


@pages.get("/maps/<name:name>/channels/<name:channel>/move", access="maps:publish")
def move_channel_form(name: str, channel: str) -> Response:
    """What a move would do, and a field for the reason."""
    version = _version(request.args.get("version", ""))
    service = current_service()
    if service.envelopes.signer.usable() is None:
        return render("channels/no_key.html", section="maps", name=name, channel=channel, number=version)
    found = service.database.read(read_consequences, name, channel, version)
    return render("channels/move.html", errors={}, **_asked(name, channel, found, ""))


@pages.post("/maps/<name:name>/channels/<name:channel>/move", access="maps:publish")
def move_channel_now(name: str, channel: str) -> BaseResponse:
    """Promote or roll back, unless somebody else has moved the channel since the form was shown."""
    service, principal = service_and_principal()
    version, shown = _version(request.form.get("version", "")), _sequence(request.form.get("sequence", ""))
    reason = request.form.get("reason", "").strip()
    try:
        order = _order(version, reason)
        moved = move_channel(
            service, principal, name, channel, order, lambda sequence: sequence == shown, g.request_id
        )
    except InvalidInput as error:
        if error.field != "reason":
            raise
        return _ask_again(name, channel, version, reason, {"reason": error.problem}, 422, shown)
    except Stale:
        last = _last_move(name, channel)
        if last is not None and _is_own(last, principal.user_id, version, reason, shown):
            return _moved(last)
        return _ask_again(name, channel, version, reason, {}, 412, shown)
    except ProblemError as problem:
        # No key: what was typed stays.
        if problem.kind is not UNAVAILABLE:
            raise
        return _ask_again(name, channel, version, reason, {"": problem.detail}, 503, shown)
    return _moved(moved)


def _order(version: int, reason: str) -> MoveRequest:
    if not reason:
        raise InvalidInput("reason", "Say why: whoever reads the history later will want to know")
    order = validated(MoveRequest, {"version": version, "reason": reason})
    assert isinstance(order, MoveRequest)
    return order


def _moved(move: MoveView) -> BaseResponse:
    verb = (
        "points" if move.from_version is None or move.to_version > move.from_version else "is back and points"
    )
    return done(
        f"{move.channel} {verb} to version {move.to_version} now. Nodes follow with their next poll.",
        url_for("show_channel", name=move.map, channel=move.channel),
    )


def _asked(name: str, channel: str, found: Consequences, reason: str) -> dict[str, Any]:
    """What the form shows."""
    there = url_for("show_channel", name=name, channel=channel)
    return {
        "section": "maps",
        "action": url_for("move_channel_now", name=name, channel=channel),
        "back": there if found.current else url_for("show_version", name=name, version=found.after.version),
        "name": name,
        "channel": channel,
        "found": found,
        "verdict": verdict,
        "figures": figures,
        "reason": reason,
        "most_characters": MAX_REASON_CHARACTERS,
        "overtaken_by": None,
        "shown": found.sequence,
    }


def _ask_again(
    name: str,
    channel: str,
    version: int,
    reason: str,
    errors: Mapping[str, str],
    status: int,
    shown: int | None,
) -> Response:
    """The form once more, for where the channel is by now; it tells when that is not where it was ``shown`` to be."""
    found = current_service().database.read(read_consequences, name, channel, version)
    now = found.current
    overtaken_by = now.last_move if now is not None and now.sequence != shown else None
    context = _asked(name, channel, found, reason) | {"overtaken_by": overtaken_by, "shown": shown}
    return refused("channels/move.html", errors, status=status, **context)


def _last_move(name: str, channel: str) -> MoveView | None:
    view = current_service().database.read(find_channel, name, channel)
    return None if view is None else view.last_move


def _is_own(last: MoveView, user_id: str, version: int, reason: str, shown: int | None) -> bool:
    """Whether the move that was in the way is this very one, sent twice by a double click."""
    return (last.actor, last.to_version, last.reason, last.sequence) == (
        user_id,
        version,
        reason,
        (shown or 0) + 1,
    )


def _version(given: str) -> int:
    if not _NUMBER.fullmatch(given):
        raise InvalidInput("version", f"{given!r} given; open a version of the map and promote it from there")
    return int(given)


def _sequence(given: str) -> int | None:
    if given and not _NUMBER.fullmatch(given):
        raise InvalidInput("sequence", f"{given!r} given; open the form again")
    return int(given) if given else None
