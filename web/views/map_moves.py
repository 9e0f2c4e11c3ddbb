"""Moves of channels: where one is, where it was before, and what a move would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.map_views import channel_views, move_view, version_view
from models.channels import find_mark, list_moves
from models.fleet import fleet_groups
from models.maps import find_map, find_version
from skipmap.client.maps import ChannelView, DomainView, MoveView, VersionView, version_before
from skipmap.errors import NotFound
from web.views.map_diff import DomainChange, domain_changes
from web.views.map_rollout import Rollout, rollout

_WAY_BACK_MOVES = 200


def read_channel(session: Session, name: str, channel: str) -> ChannelView:
    """Where a channel points to; raises NotFound."""
    found = find_channel(session, name, channel)
    if found is None:
        find_mark(session, name, channel)
        raise NotFound(f"map {name!r} has no channel {channel!r}")
    return found


def find_channel(session: Session, name: str, channel: str) -> ChannelView | None:
    """Where a channel points to, None while it is not there; raises NotFound for an unknown map."""
    find_map(session, name)
    return next((view for view in channel_views(session, [name]) if view.channel == channel), None)


def way_back(session: Session, name: str, channel: str) -> int | None:
    """The version before the current one came; None where the channel has pointed to no other one before it."""
    try:
        return version_before(read_moves(session, name, channel, limit=_WAY_BACK_MOVES))
    except NotFound:
        return None


def read_moves(
    session: Session, name: str, channel: str, *, limit: int, before: int | None = None
) -> list[MoveView]:
    """Moves of a channel, newest first."""
    found = list_moves(session, name, channel, limit=limit, before=before)
    return [move_view(row, actor) for row, actor in found]


@dataclass(frozen=True)
class Consequences:
    """What happens when a channel moves. ``current``: where it is; None while it is not there yet."""

    current: ChannelView | None
    before: VersionView | None
    after: VersionView
    changes: Sequence[DomainChange]
    rollout: Rollout

    @property
    def sequence(self) -> int | None:
        """The sequence that the move may follow."""
        return None if self.current is None else self.current.sequence

    @property
    def is_back(self) -> bool:
        """Whether the channel goes back to an older version."""
        return self.current is not None and self.after.version < self.current.version

    @property
    def is_same(self) -> bool:
        """Whether the channel points to the version already."""
        return self.current is not None and self.after.version == self.current.version

    @property
    def changing(self) -> list[DomainChange]:
        """Domains for which something changes."""
        return [change for change in self.changes if change.kind != "unchanged"]

    @property
    def overridden(self) -> list[tuple[str, DomainView]]:
        """Domains of the new version that were published although the held-out check refuses them."""
        return [(name, domain) for name, domain in self.after.domains.items() if domain.override is not None]

    @property
    def other_target(self) -> bool:
        """Whether the new version is of another model, so that the channel's nodes will refuse it."""
        return self.before is not None and self.before.target.fingerprint != self.after.target.fingerprint


def read_consequences(session: Session, name: str, channel: str, version: int) -> Consequences:
    """What it means to let a channel point to a version; raises NotFound for an unknown map or version."""
    current = find_channel(session, name, channel)
    after = version_view(find_version(session, name, version))
    before = None if current is None else version_view(find_version(session, name, current.version))
    return Consequences(
        current=current,
        before=before,
        after=after,
        changes=domain_changes(before, after),
        rollout=rollout(version, fleet_groups(session, name, channel)),
    )
