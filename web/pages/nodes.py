"""Pages of nodes: the fleet as it last reported itself, and one node whole."""

from __future__ import annotations

from flask import Response, request, url_for
from sqlalchemy.orm import Session

from api.map_views import version_view
from api.paging import make_cursor
from api.service import current_service
from models.fleet import Member, Place, find_member, members_at
from models.maps import find_version
from models.names import user_names
from skipmap.client.maps import ChannelView, VersionView
from skipmap.errors import NotFound
from web.asked import place_asked, problem_of
from web.routes import Pages
from web.views.map_moves import find_channel
from web.views.map_rollout import total_conditions
from web.views.node_filter import filter_options, fitting_groups, read_filter
from web.views.node_fleet import all_groups, fleet_places
from web.views.node_live import render_live
from web.views.node_rows import CLEARLY_BELOW, ENOUGH_STEPS, mismatches, node_row

pages = Pages()
NODES_A_PAGE = 50


@pages.get("/nodes", access="maps:read")
def show_nodes() -> Response:
    """The fleet: nodes that need somebody's eye first."""
    asked, wrong = read_filter(request.args)
    errors = {name: problem_of(text) for name, text in wrong.items()}
    kind = "fleet"
    place = place_asked(kind, _is_place)
    after: Place | None = None if place is None else (place[0], place[1])

    service = current_service()
    groups = all_groups(service)
    places = fleet_places(service, asked, limit=NODES_A_PAGE + 1, after=after)
    page, more = places[:NODES_A_PAGE], len(places) > NODES_A_PAGE
    rows = [node_row(member) for member in service.database.read(members_at, page)]
    next_cursor = make_cursor(kind, list(page[-1])) if more else None
    conditions = total_conditions(fitting_groups(groups, asked))
    return render_live(
        "nodes/nodes.html",
        (rows, conditions, next_cursor),
        rows=rows,
        asked=asked,
        errors=errors,
        options=filter_options(groups, asked),
        conditions=conditions,
        total=sum(conditions.values()),
        is_first=after is None,
        next_href=url_for("show_nodes", **asked.query(), cursor=next_cursor) if next_cursor else None,
        clearly_below=CLEARLY_BELOW,
        enough_steps=ENOUGH_STEPS,
    )


@pages.get("/nodes/<node:node>", access="maps:read")
def show_node(node: str) -> Response:
    """One node whole: what it runs and why, whom it trusts, what it has served."""
    member, channel, version, reporter = current_service().database.read(_read_node, node)
    row = node_row(member)
    found = mismatches(row.view, channel, version)
    return render_live(
        "nodes/node.html",
        (row, channel, found),
        row=row,
        node=row.view,
        channel=channel,
        target=None if version is None else version.target,
        mismatches=found,
        reporter=reporter,
        clearly_below=CLEARLY_BELOW,
        enough_steps=ENOUGH_STEPS,
    )


def _read_node(
    session: Session, node: str
) -> tuple[Member, ChannelView | None, VersionView | None, str | None]:
    """A node, its channel with the version that it points to, and the name of whose token it reports with."""
    member = find_member(session, node)
    seen = member.seen.node
    reporter = user_names(session, [seen.reported_by]).get(seen.reported_by)
    try:
        channel = find_channel(session, seen.map_name, seen.channel)
    except NotFound:
        channel = None
    if channel is None:
        return member, None, None, reporter
    version = version_view(find_version(session, seen.map_name, channel.version))
    return member, channel, version, reporter


def _is_place(given: object) -> bool:
    if not (isinstance(given, list) and len(given) == 2):
        return False
    rank, node = given
    return type(rank) is int and 0 <= rank <= 2 and isinstance(node, str)
