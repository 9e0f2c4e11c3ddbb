"""Nodes, as the API takes and shows them, and the calls for them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from skipmap.client.bases import Answer
from skipmap.client.connection import API, Call, Connection
from skipmap.client.pages import pages
from skipmap.client.paths import flag, node_path
from skipmap.client.problems import read
from skipmap.serving.report import DomainCounters, NodeReport, NodeState


class NodeDomain(DomainCounters):
    """What a node serves of a domain, beside what was measured before it was published.

    ``accept_length`` and ``blocks_ratio`` (blocks run, of those that dense would run) are served figures, None while
    there are none. The others are of the map's version that the node runs, None where it does not name the domain.
    """

    accept_length: float | None
    blocks_ratio: float | None
    skip: list[int] | None
    calibrated_accept_length: float | None
    held_out_accept_length: float | None
    calibrated_blocks_ratio: float | None


class NodeView(Answer):
    """A serving process as it last reported itself.

    ``key_ids``: of the keys that it trusts. ``reported_by``: id of the user with whose token it reported. ``stale``: it
    has missed several reports, or its state is not FRESH. ``channel_version``: where its channel points to now;
    ``is_behind``: it runs another version. ``domains``: what it has served with the version that it runs.
    """

    node: str
    map: str
    channel: str
    version: int | None
    sequence: int | None
    digest: str | None
    state: NodeState
    reason: str
    since: datetime
    fetched_at: datetime | None
    poll_seconds: float
    target_fingerprint: str | None
    software: str
    key_ids: list[str]
    reported_by: str
    stale: bool
    channel_version: int | None
    is_behind: bool
    first_seen_at: datetime
    seen_at: datetime
    domains: dict[str, NodeDomain]


class NodesClient:
    """The calls for nodes; see ``Client`` for what they may raise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def report(self, report: NodeReport) -> None:
        """Tell the service how a node is."""
        body = report.model_dump(mode="json")
        self._connection.send(Call("POST", node_path(report.node, "/report"), json=body))

    def all(
        self,
        *,
        map_name: str | None = None,
        channel: str | None = None,
        stale: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[NodeView]:
        """Nodes by id that fit, ``limit`` at most."""
        params = {"map": map_name, "channel": channel, "stale": flag(stale)}
        return pages(self._connection, NodeView, f"{API}/nodes", params, limit)

    def get(self, node: str) -> NodeView:
        """One node."""
        return read(NodeView, self._connection.send(Call("GET", node_path(node))))
