"""Nodes as pages show them: how each is and why, and what it serves beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api.map_views import node_view
from models.fleet import Condition, Member
from skipmap.client.maps import ChannelView, VersionView
from skipmap.client.nodes import NodeDomain, NodeView
from web.filters import duration

CLEARLY_BELOW = 0.9
"""A served accept length below this part of the measured one is marked, ..."""

ENOUGH_STEPS = 200
"""... once it comes from so many verification steps: fewer say little."""

_STATES = {
    "STALE": "It serves its last good map, for the service is away or its last answer was refused",
    "EXPIRED": "Its map is past the time until which it was signed",
    "NONE": "It never had a good map, so everything runs dense",
}


@dataclass(frozen=True)
class Served:
    """What a node serves of a domain, beside what was measured before the version was published."""

    domain: str
    figures: NodeDomain

    @property
    def measured(self) -> float | None:
        """The lower of the two accept lengths that were measured; None where the version has none."""
        found = (self.figures.held_out_accept_length, self.figures.calibrated_accept_length)
        return min((value for value in found if value is not None), default=None)

    @property
    def change(self) -> float | None:
        """Served accept length against the measured one, relative."""
        served, measured = self.figures.accept_length, self.measured
        return None if served is None or not measured else served / measured - 1

    @property
    def is_low(self) -> bool:
        """Whether the served figure falls clearly below."""
        change = self.change
        enough = self.figures.verification_steps >= ENOUGH_STEPS
        return enough and change is not None and 1 + change < CLEARLY_BELOW


@dataclass(frozen=True)
class NodeRow:
    """A node. ``served``: domains that fell below what was measured first, then those with most requests."""

    view: NodeView
    condition: Condition
    served: Sequence[Served]

    @property
    def verified(self) -> list[Served]:
        """Domains that it has verified drafts of."""
        return [one for one in self.served if one.figures.accept_length is not None]

    @property
    def requests(self) -> int:
        """Requests of all domains."""
        return sum(one.figures.requests for one in self.served)

    @property
    def blocks_ratio(self) -> float | None:
        """Blocks that ran, of those that dense would run, over all domains."""
        dense = sum(one.figures.blocks_dense for one in self.served)
        return sum(one.figures.blocks_run for one in self.served) / dense if dense else None

    @property
    def why(self) -> str:
        """Why the node is not as it should be, and what follows; empty where nothing is wrong."""
        view = self.view
        if self.condition == "silent":
            said = f" It said last: {view.state}{', ' + view.reason if view.reason else ''}."
            every = f"It reports every {duration(view.poll_seconds)} otherwise."
            return f"It has fallen silent: it is gone, or cannot reach the service. {every}{said}"
        if self.condition == "behind":
            return (
                f"Its channel points to version {view.channel_version}. It asks for news every "
                f"{duration(view.poll_seconds)} at the longest."
            )
        told = _STATES.get(self.condition)
        if told is None:
            return ""
        return f"{told}: {view.reason}" if view.reason else f"{told}."


def node_row(member: Member) -> NodeRow:
    """A node as pages show it."""
    view = node_view(member.seen)
    served = [Served(domain, figures) for domain, figures in view.domains.items()]
    served.sort(key=lambda one: (not one.is_low, -one.figures.requests, one.domain))
    return NodeRow(view, member.condition, served)


@dataclass(frozen=True)
class Mismatch:
    """Something of a node that keeps it from acting on its channel's map."""

    title: str
    text: str


def mismatches(view: NodeView, channel: ChannelView | None, version: VersionView | None) -> list[Mismatch]:
    """Why a node cannot act on what its channel hands out; ``version``: the one that the channel points to."""
    if channel is None:
        return [
            Mismatch(
                "There is no such channel",
                f"The node asks for channel {view.channel} of map {view.map}, which this service does not have. "
                "Promote a version to that channel, or start the node with another one.",
            )
        ]
    found = []
    wanted = None if version is None else version.target
    if wanted is not None and view.target_fingerprint not in (None, wanted.fingerprint):
        found.append(
            Mismatch(
                "It serves another model than the map's",
                f"Its target has the fingerprint {view.target_fingerprint}, and the map is of {wanted.id} with "
                f"{wanted.fingerprint}. It refuses the map: layers of one model say nothing of another. Start it with "
                "the map's target, or let it follow a map of its own target.",
            )
        )
    if view.key_ids and not set(view.key_ids) & set(channel.key_ids):
        found.append(
            Mismatch(
                "It trusts none of the keys that sign the channel",
                f"It trusts {', '.join(view.key_ids)}; the channel is signed by {', '.join(channel.key_ids)}. Give it "
                "the service's .pub file; it reads that again by itself.",
            )
        )
    return found
