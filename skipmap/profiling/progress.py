"""What a running job tells its listener."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipmap.skipset import SkipSet


@dataclass(frozen=True)
class LevelProgress:
    """A level starts, or one of its groups is done. ``best`` (skip set, A, M): cheapest feasible so far."""

    kind: str
    level: int
    done: int
    total: int
    best: tuple[SkipSet, float, float] | None = None


@dataclass(frozen=True)
class CheckProgress:
    """Held-out prompts answered by every point so far."""

    done: int
    total: int
    points: int


@dataclass(frozen=True)
class PassProgress:
    """Passes over a domain's prompts done so far: one for all replayed drafts, one for each live draft."""

    domain: str
    done: int
    total: int


@dataclass(frozen=True)
class Phase:
    """Something without a count begins."""

    text: str


@dataclass(frozen=True)
class Note:
    """A sentence for the user."""

    text: str


Counted = LevelProgress | CheckProgress | PassProgress
Event = Counted | Phase | Note
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that wants to know nothing."""
