"""A roll-out: how far the nodes of a channel are with the version that it points to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.fleet import CONDITIONS, Condition, Group
from models.nodes import STATES
from skipmap.serving.report import NodeState


@dataclass(frozen=True)
class Rollout:
    """Nodes of a channel in numbers. ``versions``: version, None for no map, and nodes that run it or did at last."""

    channel_version: int
    conditions: Mapping[Condition, int]
    versions: Sequence[tuple[int | None, int]]
    states: Mapping[NodeState, int]
    there: int
    """Nodes of the channel's version among those that report."""
    longest_poll_seconds: float | None
    """Of nodes that report; None without any."""

    @property
    def total(self) -> int:
        """All nodes that follow the channel."""
        return sum(self.conditions.values())

    @property
    def reporting(self) -> int:
        """Nodes that still report."""
        return self.total - self.conditions["silent"]

    @property
    def stale(self) -> int:
        """Nodes that report, and say that they are not FRESH."""
        return sum(self.conditions[state] for state in STATES if state != "FRESH")

    def chart(self) -> dict[str, Any]:
        """What the chart of a roll-out draws."""
        return {
            "channel_version": self.channel_version,
            "versions": [
                {"version": version, "nodes": nodes, "label": self.label(version)}
                for version, nodes in self.versions
            ],
            "states": dict(self.states),
        }

    def label(self, version: int | None) -> str:
        """What a version is called."""
        if version is None:
            return "no map"
        return f"{version} (current)" if version == self.channel_version else str(version)


def rollout(channel_version: int, groups: Sequence[Group]) -> Rollout:
    """Count the groups of one channel."""
    conditions = total_conditions(groups)
    versions: dict[int | None, int] = {}
    states: dict[NodeState, int] = dict.fromkeys(STATES, 0)
    for group in groups:
        versions[group.version] = versions.get(group.version, 0) + group.nodes
        states[group.state] += group.nodes
    reporting = [group for group in groups if not group.is_silent]
    return Rollout(
        channel_version=channel_version,
        conditions=conditions,
        # The newest first, nodes without a map last.
        versions=sorted(versions.items(), key=lambda item: -(item[0] or 0)),
        states=states,
        there=sum(group.nodes for group in reporting if group.version == channel_version),
        longest_poll_seconds=max((group.longest_poll_seconds for group in reporting), default=None),
    )


def total_conditions(groups: Sequence[Group]) -> dict[Condition, int]:
    """How many nodes are in which condition."""
    found: dict[Condition, int] = dict.fromkeys(CONDITIONS, 0)
    for group in groups:
        found[group.condition] += group.nodes
    return found
