"""Which nodes a page shows: what the address asks for, and what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.fleet import CONDITIONS, Condition, Group
from skipmap.canonical import bad_text
from skipmap.errors import InvalidInput

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


def read_filter(given: Mapping[str, str]) -> NodeFilter:
    """What an address asks for; raises InvalidInput naming the parameter."""
    texts = {name: given.get(name) or None for name in ("map", "channel", "state", "version")}
    if bad_text(texts) is not None:
        raise InvalidInput("map", "holds characters that no name has")
    state, version = texts["state"], texts["version"]
    if state is not None and state not in CONDITIONS:
        raise InvalidInput("state", f"{state!r} given; allowed: {', '.join(CONDITIONS)}")
    if version is not None and not (version.isascii() and version.isdigit() and len(version) <= _MOST_DIGITS):
        raise InvalidInput("version", f"{version!r} given; give the number of a version")
    return NodeFilter(
        map_name=texts["map"],
        channel=texts["channel"],
        condition=state,
        version=None if version is None else int(version),
    )


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
