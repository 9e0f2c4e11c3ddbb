"""The fleet as many look at it again and again: counted and put in order once for all of them, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from sqlalchemy.orm import Session

from api.service import Service
from models.database import Database
from models.fleet import Group, Place, fleet_groups, fleet_reasons, list_places
from skipmap.serving.report import NodeState
from web.views.kept import Kept
from web.views.node_filter import NodeFilter

KEEP_SECONDS = 2.0
"""What is shown is at most so old: to count and order 100,000 nodes takes the database a fifth of a second."""

_KEPT = 100


@dataclass(frozen=True)
class ChannelFleet:
    """Nodes of one channel, counted; ``reasons``: why some are not FRESH (see ``models.fleet.fleet_reasons``)."""

    groups: Sequence[Group]
    reasons: Sequence[tuple[NodeState, str, int]]


_kept: WeakKeyDictionary[Database, Kept[Hashable, Any]] = WeakKeyDictionary()


def channel_fleet(
    service: Service, map_name: str, channel: str, sequence: int, *, most_reasons: int
) -> ChannelFleet:
    """The nodes of a channel; ``sequence``: where it is, so that a move shows at once."""

    def read(session: Session) -> ChannelFleet:
        return ChannelFleet(
            fleet_groups(session, map_name, channel),
            fleet_reasons(session, map_name, channel, limit=most_reasons),
        )

    return cast(ChannelFleet, _lately(service, ("channel", map_name, channel, sequence, most_reasons), read))


def all_groups(service: Service) -> Sequence[Group]:
    """All nodes, counted."""
    return cast(Sequence[Group], _lately(service, "groups", fleet_groups))


def fleet_places(
    service: Service, asked: NodeFilter, *, limit: int, after: Place | None = None
) -> Sequence[Place]:
    """The places of a page of nodes."""

    def read(session: Session) -> Sequence[Place]:
        return list_places(
            session,
            limit=limit,
            after=after,
            map_name=asked.map_name,
            channel=asked.channel,
            version=asked.version,
            condition=asked.condition,
        )

    return cast(Sequence[Place], _lately(service, ("places", asked, limit, after), read))


def _lately(service: Service, key: Hashable, read: Callable[[Session], Any]) -> Any:
    kept = _kept.setdefault(service.database, Kept(_KEPT))
    span = int(time.monotonic() / KEEP_SECONDS)
    return kept.get((span, key), lambda: service.database.read(read))
