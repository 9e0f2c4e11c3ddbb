"""A comparison document as the page reads it: typed, with figures that may be missing as None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skipmap.errors import InvalidInput
from skipmap.profiling.documents import COMPARISON_SCHEMA as SCHEMA
from skipmap.profiling.drafting import Drafting, drafting
from skipmap.skipset import SkipSet

MOST_SETTINGS = 32
"""Characters of a draft's settings where room is short; tables have all."""

COLOURS = 8
"""Bars are coloured by draft method; further methods begin again. Labels tell them apart as well."""


@dataclass(frozen=True)
class Draft:
    """A compared draft method. ``settings``: the parameters that its name gives; ``colour`` from 1 on."""

    name: str
    method: str
    settings: str
    summary: str
    lossy: bool
    params: Mapping[str, Any]
    colour: int

    @property
    def label(self) -> str:
        """Its name for a sentence, long settings cut."""
        return f"{self.method} ({cut(self.settings, MOST_SETTINGS)})" if self.settings else self.method


@dataclass(frozen=True)
class Entry:
    """One draft method in one domain; without a verification step there are no figures."""

    draft: Draft
    accept: float | None
    interval: tuple[float, float] | None
    accepted_drafts: float | None
    tree_size: float | None
    steps: int
    evaluator: str
    batch_split: bool
    drafting: Drafting | None


@dataclass(frozen=True)
class Domain:
    """One domain's entries, in the order of the drafts."""

    name: str
    data: Mapping[str, Any]
    metric: Mapping[str, Any]
    spec: Mapping[str, Any]
    entries: tuple[Entry, ...]

    @property
    def longest(self) -> float | None:
        """The longest accept length, if any step was taken."""
        return max((entry.accept for entry in self.entries if entry.accept is not None), default=None)

    @property
    def leaders(self) -> tuple[Entry, ...]:
        """Who reaches the longest accept length."""
        return tuple(
            entry for entry in self.entries if entry.accept is not None and entry.accept == self.longest
        )

    @property
    def leader(self) -> str:
        """The leaders in a few words; empty without one."""
        leaders = self.leaders
        if len(leaders) == len(self.entries) > 1:
            return "all alike"
        return (
            f"{len(leaders)} methods alike"
            if len(leaders) > 1
            else "".join(entry.draft.label for entry in leaders)
        )


class Compared:
    """One comparison. Raises InvalidInput when the document is none."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        if document.get("schema") != SCHEMA:
            raise InvalidInput("comparison", f"schema is {document.get('schema')!r}, not {SCHEMA!r}")
        self.document = document
        self.target: Mapping[str, Any] = document["target"]
        self.skip = SkipSet.of(document["skip"])
        self.accept_definition: str = document["accept_length"]
        self.drafts = tuple(
            _draft(name, data, place) for place, (name, data) in enumerate(document["drafts"].items())
        )
        self.domains = tuple(self._domain(name, data) for name, data in document["domains"].items())

    def _domain(self, name: str, data: Mapping[str, Any]) -> Domain:
        rows = {row["draft"]: row for row in data["rows"]}
        entries = tuple(_entry(draft, rows[draft.name]) for draft in self.drafts)
        return Domain(name, data["data"], data["metric"], data["spec"], entries)


def cut(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draft(name: str, data: Mapping[str, Any], place: int) -> Draft:
    method, _, settings = name.partition(":")
    return Draft(
        name,
        method,
        settings.replace(":", ", "),
        data["summary"],
        data["lossy"],
        data["params"],
        1 + place % COLOURS,
    )


def _entry(draft: Draft, row: Mapping[str, Any]) -> Entry:
    stepped = row["steps"] > 0
    low, high = row["interval"]
    return Entry(
        draft,
        row["accept_length"] if stepped else None,
        (low, high) if stepped else None,
        row["accepted_drafts"] if stepped else None,
        row["tree_size"] if stepped else None,
        row["steps"],
        row["evaluator"],
        row.get("batch_split", False),
        drafting(row),
    )
