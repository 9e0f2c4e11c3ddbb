"""Nodes over HTTP: their reports, and the fleet as it last reported itself."""

from __future__ import annotations

from flask import Response
from pydantic import Field

from api.auth import current_principal
from api.map_views import node_view
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.routes import Answer, Routes
from api.service import current_service
from models.nodes import find_node, list_nodes, store_report
from skipmap.client.documents import Page
from skipmap.client.nodes import NodeView
from skipmap.errors import InvalidInput
from skipmap.serving.report import NodeReport

routes = Routes("nodes")
_LIST = "nodes"


class NodesQuery(PageQuery):
    """Which nodes."""

    map: str | None = Field(default=None, min_length=1)
    channel: str | None = Field(default=None, min_length=1)
    stale: bool | None = Field(
        default=None, description="Whether they have missed several reports, or are not FRESH."
    )


@routes.add(
    "POST",
    "/nodes/<node:node>/report",
    access="nodes:report",
    rate="node",
    body=NodeReport,
    answers={204: Answer("The report is kept")},
    problems=(409,),
)
def create_report(node: str, body: NodeReport) -> Response:
    """Take in what a node says of itself, in place of what it said before."""
    if body.node != node:
        raise InvalidInput("node", f"{body.node!r} given; the address names {node!r}")
    service = current_service()
    service.reports.read(store_report, body, current_principal().user_id, service.settings.most_nodes)
    return Response(status=204)


@routes.add(
    "GET",
    "/nodes",
    access="maps:read",
    query=NodesQuery,
    answers={200: Answer("A page of nodes by id", Page[NodeView], headers=("Link",))},
)
def get_nodes(query: NodesQuery) -> Response:
    """List nodes: which version each runs, and its served figures beside the calibrated ones."""
    after = read_cursor(query.cursor, _LIST)
    if after is not None and not isinstance(after, str):
        raise bad_cursor()
    found = current_service().database.read(
        list_nodes,
        limit=query.limit + 1,
        after=after,
        map_name=query.map,
        channel=query.channel,
        stale=query.stale,
    )
    page = [node_view(seen) for seen in found[: query.limit]]
    return page_of(page, make_cursor(_LIST, page[-1].node) if len(found) > query.limit else None)


@routes.add("GET", "/nodes/<node:node>", access="maps:read", answers={200: Answer("The node", NodeView)})
def get_node(node: str) -> Response:
    """One node as it last reported itself."""
    return json_response(node_view(current_service().database.read(find_node, node)))
