"""Views: stored maps, channels and nodes as documents of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from models.channels import ChannelMove, Mark, list_channels
from models.maps import Map, MapVersion
from models.nodes import NodeSeen
from skipmap.client.maps import ChannelView, MapView, MoveView, VersionView
from skipmap.client.nodes import NodeDomain, NodeView


def version_view(row: MapVersion) -> VersionView:
    """A version without its bytes."""
    return VersionView(
        map=row.map_name,
        version=row.version,
        digest=row.digest,
        created_by=row.created_by,
        created_at=row.created_at,
        **row.summary,
    )


def map_views(session: Session, maps: Sequence[Map]) -> list[MapView]:
    """Maps with their channels, with one query for all channels."""
    found: dict[str, list[ChannelView]] = {row.name: [] for row in maps}
    for view in channel_views(session, list(found)):
        found[view.map].append(view)
    return [
        MapView(
            name=row.name,
            last_version=row.last_version,
            channels=found[row.name],
            created_by=row.created_by,
            created_at=row.created_at,
            updated_at=row.updated_at,
        )
        for row in maps
    ]


def channel_views(session: Session, map_names: Sequence[str]) -> list[ChannelView]:
    """Channels of some maps, by name."""
    return [
        channel_view(mark, move_view(move, actor)) for mark, move, actor in list_channels(session, map_names)
    ]


def channel_view(mark: Mark, last_move: MoveView) -> ChannelView:
    """Where a channel points to."""
    return ChannelView(
        map=mark.map_name,
        channel=mark.channel,
        sequence=mark.sequence,
        version=mark.version,
        digest=mark.digest,
        issued_at=mark.issued_at,
        expires_at=mark.expires_at,
        key_ids=list(mark.key_ids),
        last_move=last_move,
    )


def move_view(row: ChannelMove, actor_name: str | None) -> MoveView:
    """A move of a channel."""
    return MoveView(
        map=row.map_name,
        channel=row.channel,
        sequence=row.sequence,
        from_version=row.from_version,
        to_version=row.to_version,
        reason=row.reason,
        actor=row.actor,
        actor_name=actor_name,
        at=row.at,
    )


def node_view(seen: NodeSeen) -> NodeView:
    """A node, its served figures beside those of the version that it runs."""
    node = seen.node
    calibrated = seen.calibrated or {}
    return NodeView(
        node=node.id,
        map=node.map_name,
        channel=node.channel,
        version=node.version,
        sequence=node.sequence,
        digest=node.digest,
        state=node.state,
        reason=node.reason,
        since=node.since,
        fetched_at=node.fetched_at,
        poll_seconds=node.poll_seconds,
        target_fingerprint=node.target_fingerprint,
        software=node.software,
        key_ids=node.key_ids,
        reported_by=node.reported_by,
        stale=seen.is_stale,
        channel_version=seen.channel_version,
        is_behind=seen.channel_version is not None and seen.channel_version != node.version,
        first_seen_at=node.first_seen_at,
        seen_at=node.seen_at,
        domains={
            name: _node_domain(counters, calibrated.get(name)) for name, counters in node.domains.items()
        },
    )


def _node_domain(counters: dict[str, int], entry: dict[str, Any] | None) -> NodeDomain:
    held_out = entry and entry["held_out"]
    return NodeDomain(
        **counters,
        accept_length=_ratio(counters["emitted_tokens"], counters["verification_steps"]),
        blocks_ratio=_ratio(counters["blocks_run"], counters["blocks_dense"]),
        skip=entry["skip"] if entry else None,
        calibrated_accept_length=entry["accept_length"]["sparse"] if entry else None,
        held_out_accept_length=held_out["accept_length"]["sparse"] if held_out else None,
        calibrated_blocks_ratio=1 - entry["sparsity"] if entry else None,
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
