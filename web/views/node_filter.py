"""Which nodes a page shows: what the address asks for, and what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from models.fleet import CONDITIONS, Condition, Group
from skipmap.canonical import bad_text

Options = Sequence[tuple[str, str]]

CONDITION_WORDS: Mapping[Condition, str] = {
    "silent": "silent",
    "STALE": "STALE: last good map",
    "EXPIRED": "EXPIRED: past its time",
    "NONE": "NONE: no map",
    "behind": "behind its channel",
    "current": "current",
}
_MOST_DIGITS = 9


@dataclass(frozen=True)
class NodeFilter:
    """What is asked for; None asks for all."""

    map_name: str | None
    channel: str | None
    condition: Condition | None
    version: int | None

    @property
    def is_set(self) -> bool:
        """Whether anything is left out."""
        return self != NodeFilter(None, None, None, None)

    def query(self) -> dict[str, Any]:
        """The same as parameters of an address."""
        given = {
            "map": self.map_name,
            "channel": self.channel,
            "state": self.condition,
            "version": None if self.version is None else str(self.version),
        }
        return {name: value for name, value in given.items() if value is not None}


def read_filter(given: Mapping[str, str]) -> tuple[NodeFilter, dict[str, str]]:
    """What an address asks for, without what cannot be used; that comes with what is wrong with it, by parameter."""
    texts = {name: given.get(name) or None for name in ("map", "channel", "state", "version")}
    wrong = {
        name: "holds characters that no name has"
        for name, text in texts.items()
        if bad_text(text) is not None
    }
    state, version = texts["state"], texts["version"]
    if state is not None and state not in CONDITIONS:
        wrong["state"] = f"must be one of {', '.join(CONDITIONS)} (given: {state!r})"
    if version is not None and not (version.isascii() and version.isdigit() and len(version) <= _MOST_DIGITS):
        wrong["version"] = f"must be the number of a version (given: {version!r})"
    kept = {name: None if name in wrong else text for name, text in texts.items()}
    return NodeFilter(
        map_name=kept["map"],
        channel=kept["channel"],
        condition=cast("Condition | None", kept["state"]),
        version=None if kept["version"] is None else int(kept["version"]),
    ), wrong


def filter_options(groups: Sequence[Group], asked: NodeFilter) -> dict[str, Options]:
    """What can be chosen, by parameter: channels and versions are those of the chosen map."""
    fitting = [group for group in groups if asked.map_name in (None, group.map_name)]
    versions = {group.version for group in fitting if group.version is not None}
    maps = {group.map_name for group in groups} | ({asked.map_name} if asked.map_name else set())
    channels = {group.channel for group in fitting} | ({asked.channel} if asked.channel else set())
    versions |= {asked.version} if asked.version is not None else set()
    return {
        "map": _options(sorted(maps)),
        "channel": _options(sorted(channels)),
        "state": [("", "All"), *CONDITION_WORDS.items()],
        "version": _options([str(version) for version in sorted(versions, reverse=True)]),
    }


def fitting_groups(groups: Sequence[Group], asked: NodeFilter) -> list[Group]:
    """Groups of the map, channel and version that are asked for, in whatever condition."""
    return [
        group
        for group in groups
        if asked.map_name in (None, group.map_name)
        and asked.channel in (None, group.channel)
        and asked.version in (None, group.version)
    ]


def _options(values: Sequence[str]) -> list[tuple[str, str]]:
    return [("", "All"), *((value, value) for value in values)]
