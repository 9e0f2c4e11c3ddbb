"""The fleet: nodes counted and listed by how far they are with their channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Select, and_, case, func, select, tuple_
from sqlalchemy.orm import Session

from models.channels import Channel
from models.maps import MapVersion
from models.nodes import IS_SILENT, Node, NodeSeen
from skipmap.errors import NotFound
from skipmap.serving.report import NodeState

Condition = Literal["silent", "STALE", "EXPIRED", "NONE", "behind", "current"]
"""How a node is: silent, else what it says of itself, else whether it runs its channel's version."""

CONDITIONS: tuple[Condition, ...] = get_args(Condition)

Place = tuple[int, str]
"""Where a node stands in ``list_places``: its rank and its id."""


@dataclass(frozen=True)
class Group:
    """Nodes that are alike, and the longest time that one of them lets pass between two polls."""

    map_name: str
    channel: str
    channel_version: int | None
    version: int | None
    state: NodeState
    is_silent: bool
    nodes: int
    longest_poll_seconds: float

    @property
    def condition(self) -> Condition:
        """How each of them is."""
        return _condition(self.state, self.is_silent, self.version, self.channel_version)


@dataclass(frozen=True)
class Member:
    """A node of the fleet."""

    seen: NodeSeen
    is_silent: bool

    @property
    def condition(self) -> Condition:
        """How it is."""
        node = self.seen.node
        return _condition(node.state, self.is_silent, node.version, self.seen.channel_version)


def fleet_groups(session: Session, map_name: str | None = None, channel: str | None = None) -> list[Group]:
    """Nodes of a map and channel, or all, counted by version and state, with one statement."""
    alike = (
        _fitting(map_name, channel)
        .add_columns(
            Node.map_name,
            Node.channel,
            Channel.version.label("channel_version"),
            Node.version,
            Node.state,
            IS_SILENT.label("is_silent"),
            Node.poll_seconds,
        )
        .subquery()
    )
    *kinds, poll = alike.c
    figures = (func.count().label("nodes"), func.max(poll).label("longest_poll_seconds"))
    rows = session.execute(
        select(*kinds, *figures).group_by(*kinds).order_by(alike.c.map_name, alike.c.channel, alike.c.version)
    )
    return [Group(**row._asdict()) for row in rows]


def fleet_reasons(
    session: Session, map_name: str, channel: str, *, limit: int
) -> list[tuple[NodeState, str, int]]:
    """Why nodes of a channel that still report are not FRESH: state, reason and nodes, the most frequent first."""
    number = func.count()
    rows = session.execute(
        _fitting(map_name, channel)
        .add_columns(Node.state, Node.reason, number)
        .where(Node.state != "FRESH", ~IS_SILENT)
        .group_by(Node.state, Node.reason)
        .order_by(number.desc(), Node.state, Node.reason)
        .limit(limit)
    )
    return [(state, reason, nodes) for state, reason, nodes in rows]


def list_places(
    session: Session,
    *,
    limit: int,
    after: Place | None = None,
    map_name: str | None = None,
    channel: str | None = None,
    version: int | None = None,
    condition: Condition | None = None,
) -> list[Place]:
    """A page of nodes: first those that are silent or not FRESH, then those behind, then the rest, each by id.

    ``after``: place of the last one of the page before. What nodes have reported is left to ``members_at``: to put
    all of them in order, only what the order is made of is read.
    """
    query = _fitting(map_name, channel).add_columns(_RANK.label("rank"), Node.id)
    if version is not None:
        query = query.where(Node.version == version)
    if condition is not None:
        query = query.where(_is(condition))
    if after is not None:
        query = query.where(tuple_(_RANK, Node.id) > tuple_(*after))
    rows = session.execute(query.order_by(_RANK, Node.id).limit(limit))
    return [(row.rank, row.id) for row in rows]


def members_at(session: Session, places: Sequence[Place]) -> list[Member]:
    """The nodes at some places, in their order and as they are now; those that are gone are left out."""
    if not places:
        return []
    found = {
        member.seen.node.id: member
        for member in _read(session, _members().where(Node.id.in_([node for _, node in places])))
    }
    return [found[node] for _, node in places if node in found]


def find_member(session: Session, node_id: str) -> Member:
    """One node; raises NotFound."""
    found = _read(session, _members().where(Node.id == node_id))
    if not found:
        raise NotFound(f"no node {node_id!r} has reported")
    return found[0]


def _condition(
    state: NodeState, is_silent: bool, version: int | None, channel_version: int | None
) -> Condition:
    if is_silent:
        return "silent"
    if state != "FRESH":
        return state
    return "current" if channel_version in (None, version) else "behind"


_Run = tuple[str, int | None, str | None]

_BEHIND: ColumnElement[bool] = and_(
    Channel.version.is_not(None), Channel.version.is_distinct_from(Node.version)
)
_RANK: ColumnElement[int] = case((IS_SILENT | (Node.state != "FRESH"), 0), (_BEHIND, 1), else_=2)


def _fitting(map_name: str | None, channel: str | None) -> Select[Any]:
    here = and_(Channel.map_name == Node.map_name, Channel.name == Node.channel)
    query: Select[Any] = select().select_from(Node).outerjoin(Channel, here)
    for column, value in ((Node.map_name, map_name), (Node.channel, channel)):
        if value is not None:
            query = query.where(column == value)
    return query


def _members() -> Select[Any]:
    return _fitting(None, None).add_columns(Node, IS_SILENT, Channel.version)


def _read(session: Session, query: Select[Any]) -> list[Member]:
    rows = session.execute(query).all()
    calibrated = _calibrated(session, [row[0] for row in rows])
    return [
        Member(
            NodeSeen(node, is_silent or node.state != "FRESH", channel_version, calibrated.get(_run(node))),
            is_silent,
        )
        for node, is_silent, channel_version in rows
    ]


def _is(condition: Condition) -> ColumnElement[bool]:
    if condition == "silent":
        return IS_SILENT
    if condition == "behind":
        return and_(~IS_SILENT, Node.state == "FRESH", _BEHIND)
    if condition == "current":
        return and_(~IS_SILENT, Node.state == "FRESH", ~_BEHIND)
    return and_(~IS_SILENT, Node.state == condition)


def _run(node: Node) -> _Run:
    return node.map_name, node.version, node.digest


def _calibrated(session: Session, nodes: Sequence[Node]) -> dict[_Run, dict[str, Any]]:
    """Figures of the versions that nodes run: few versions, so they are not read anew for every node."""
    runs = {_run(node) for node in nodes if node.version is not None and node.digest is not None}
    if not runs:
        return {}
    key = (MapVersion.map_name, MapVersion.version, MapVersion.digest)
    rows = session.execute(select(*key, MapVersion.summary["domains"]).where(tuple_(*key).in_(runs)))
    return {(name, version, digest): domains for name, version, digest, domains in rows}
