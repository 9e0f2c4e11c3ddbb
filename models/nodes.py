"""Nodes: serving processes as they last reported themselves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ColumnElement,
    Index,
    Integer,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, clean, interval, one_of
from models.channels import Channel
from models.errors import Conflict
from models.maps import MapVersion
from skipmap.errors import InvalidInput, NotFound
from skipmap.serving.report import MAX_NODE_ID, NodeReport, NodeState

STATES: tuple[NodeState, ...] = ("FRESH", "STALE", "EXPIRED", "NONE")
NODE_PATTERN = f"[A-Za-z0-9][A-Za-z0-9_.:-]{{0,{MAX_NODE_ID - 1}}}"
"""What nodes are called, see ``skipmap.serving.report``."""

MISSED_POLLS = 3
GRACE_SECONDS = 30.0
"""A node that is silent for ``MISSED_POLLS`` of its polls and so much longer counts as stale, whatever it said."""


class Node(Base):
    """The last report of a node; its counters are those of its process."""

    __tablename__ = "nodes"

    id: Mapped[str] = mapped_column(String(MAX_NODE_ID, collation="C"), primary_key=True)
    map_name: Mapped[str]
    channel: Mapped[str]
    version: Mapped[int | None] = mapped_column(Integer)
    sequence: Mapped[int | None] = mapped_column(BigInteger)
    digest: Mapped[str | None]
    state: Mapped[NodeState] = mapped_column(Text)
    reason: Mapped[str]
    since: Mapped[datetime]
    fetched_at: Mapped[datetime | None]
    poll_seconds: Mapped[float]
    target_fingerprint: Mapped[str | None]
    software: Mapped[str]
    key_ids: Mapped[list[str]] = mapped_column(ARRAY(Text))
    """Of the keys that it trusts."""
    domains: Mapped[dict[str, Any]]
    reported_by: Mapped[Id]
    """Id of the user whose token it reported with."""
    first_seen_at: Mapped[Created]
    seen_at: Mapped[Created]

    # Reports come often: no index holds what changes with each of them, and pages keep room.
    __table_args__ = (
        CheckConstraint(one_of("state", STATES), "state"),
        Index(None, "map_name", "channel", "id"),
        {"postgresql_with": {"fillfactor": "70"}},
    )


@dataclass(frozen=True)
class NodeSeen:
    """A node as others see it.

    ``channel_version``: where its channel points to now; ``calibrated``: figures of the version that it runs, by
    domain, None when the service does not know that version, or knows other bytes under its number.
    """

    node: Node
    is_stale: bool
    channel_version: int | None
    calibrated: dict[str, Any] | None


def store_report(session: Session, report: NodeReport, reported_by: str, most_nodes: int) -> None:
    """Keep a node's report in place of the one before.

    Raises InvalidInput for a time that cannot be read back, and Conflict when another user has reported the node
    lately or ``most_nodes`` others are known.
    """
    fields = {
        "map_name": report.map,
        "channel": report.channel,
        "version": report.version,
        "sequence": report.sequence,
        "digest": report.digest,
        "state": report.state,
        "reason": clean(report.reason),
        "since": _utc("since", report.since),
        "fetched_at": None if report.fetched_at is None else _utc("fetched_at", report.fetched_at),
        "poll_seconds": report.poll_seconds,
        "target_fingerprint": report.target_fingerprint,
        "software": report.software,
        "key_ids": list(report.key_ids),
        "domains": {name: counters.model_dump() for name, counters in report.domains.items()},
        "reported_by": reported_by,
    }
    given = {f"new_{name}": value for name, value in fields.items()}
    if session.connection().execute(_KEEP, {"node": report.node, **given}).first() is not None:
        return
    if session.scalar(select(Node.id).where(Node.id == report.node)) is not None:
        raise Conflict(
            f"node {report.node!r} is another user's, who reported it lately; give this one another node id",
            "taken",
        )
    if (session.scalar(select(func.count()).select_from(Node)) or 0) >= most_nodes:
        raise Conflict(
            f"{most_nodes} nodes are known already (SKIPMAP_MOST_NODES); silent ones are forgotten in time",
            "full",
        )
    # Of two first reports at once the later one comes again with the next poll.
    session.execute(
        insert(Node).values(id=report.node, seen_at=func.clock_timestamp(), **fields).on_conflict_do_nothing()
    )


def _utc(field: str, moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        # PostgreSQL keeps more years than Python reads: one such row would spoil every list of nodes.
        raise InvalidInput(
            field, f"{moment.isoformat()} given; in UTC it must lie in the years 1 to 9999"
        ) from None


def list_nodes(
    session: Session,
    *,
    limit: int,
    after: str | None = None,
    map_name: str | None = None,
    channel: str | None = None,
    stale: bool | None = None,
) -> list[NodeSeen]:
    """A page of nodes by id; ``after``: the last one of the page before."""
    query = _seen().order_by(Node.id).limit(limit)
    if after is not None:
        query = query.where(Node.id > after)
    for column, value in ((Node.map_name, map_name), (Node.channel, channel)):
        if value is not None:
            query = query.where(column == value)
    if stale is not None:
        query = query.where(IS_STALE if stale else not_(IS_STALE))
    return [NodeSeen(*row) for row in session.execute(query)]


def find_node(session: Session, node_id: str) -> NodeSeen:
    """One node; raises NotFound."""
    row = session.execute(_seen().where(Node.id == node_id)).first()
    if row is None:
        raise NotFound(f"no node {node_id!r} has reported")
    return NodeSeen(*row)


def forget_nodes(session: Session, seconds: float) -> int:
    """Remove nodes that were silent for so long; returns how many."""
    until = func.clock_timestamp() - interval(seconds)
    return len(session.execute(delete(Node).where(Node.seen_at < until).returning(Node.id)).all())


def node_totals(session: Session) -> dict[tuple[str, str, str], int]:
    """Number of nodes by map, channel, and whether they are ``stale``, ``behind`` their channel, or ``current``."""
    is_behind = and_(Channel.version.is_not(None), Channel.version.is_distinct_from(Node.version))
    condition = case((IS_STALE, "stale"), (is_behind, "behind"), else_="current").label("condition")
    here = and_(Channel.map_name == Node.map_name, Channel.name == Node.channel)
    seen = select(Node.map_name, Node.channel, condition).outerjoin(Channel, here).subquery()
    rows = session.execute(select(seen, func.count()).group_by(*seen.c))
    return {(name, channel, found): count for name, channel, found, count in rows}


def channel_counts(session: Session, map_names: Collection[str]) -> dict[str, dict[str, int]]:
    """Number of nodes by map and channel, for some maps; an index alone tells it, however often nodes report."""
    rows = session.execute(
        select(Node.map_name, Node.channel, func.count())
        .where(Node.map_name.in_(map_names))
        .group_by(Node.map_name, Node.channel)
    )
    found: dict[str, dict[str, int]] = {name: {} for name in map_names}
    for name, channel, nodes in rows:
        found[name][channel] = nodes
    return found


IS_SILENT: ColumnElement[bool] = Node.seen_at < func.clock_timestamp() - func.make_interval(
    0, 0, 0, 0, 0, 0, MISSED_POLLS * Node.poll_seconds + GRACE_SECONDS
)
IS_STALE: ColumnElement[bool] = or_(Node.state != "FRESH", IS_SILENT)


def _keep() -> Any:
    """Made once, and without the session's own work: that costs several times what the database takes."""
    names = {column.name for column in Node.__table__.columns} - {"id", "first_seen_at", "seen_at"}
    return (
        update(cast(Table, Node.__table__))
        .where(Node.id == bindparam("node"), or_(Node.reported_by == bindparam("new_reported_by"), IS_SILENT))
        .values({name: bindparam(f"new_{name}") for name in names} | {"seen_at": func.clock_timestamp()})
        .returning(Node.__table__.c.id)
    )


_KEEP = _keep()


def _seen() -> Any:
    here = and_(Channel.map_name == Node.map_name, Channel.name == Node.channel)
    runs = and_(
        MapVersion.map_name == Node.map_name,
        MapVersion.version == Node.version,
        MapVersion.digest == Node.digest,
    )
    return (
        select(Node, IS_STALE.label("is_stale"), Channel.version, MapVersion.summary["domains"])
        .outerjoin(Channel, here)
        .outerjoin(MapVersion, runs)
        .execution_options(populate_existing=True)
    )
