"""How good the map at hand is: FRESH, STALE, EXPIRED or NONE, as a function of what is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from skipmap.serving.acceptance import ActiveMap, time_text
from skipmap.serving.events import Source
from skipmap.serving.report import MAX_REASON, NodeState

OnExpired = Literal["keep", "dense"]


@dataclass(frozen=True)
class Clock:
    """Where the time comes from: ``wall`` in seconds since 1970, which may jump, and ``steady``, which never does."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Held:
    """The map at hand, with the envelope that it came in.

    ``confirmed_wall`` and ``confirmed_steady``: when it was last known to be good, by both clocks.
    """

    active: ActiveMap
    envelope: bytes = field(repr=False)
    source: Source
    confirmed_wall: float
    confirmed_steady: float

    def now(self, clock: Clock) -> float:
        """The wall clock, but never less than has surely gone by: setting it back must not revive a map."""
        return max(clock.wall(), self.confirmed_wall + (clock.steady() - self.confirmed_steady))

    def is_expired(self, clock: Clock) -> bool:
        """Whether the map is past its time."""
        return self.now(clock) >= self.active.expires_at.timestamp()

    def confirmed(self, clock: Clock) -> Held:
        """The same map, known to be good at this moment, if it is."""
        if self.is_expired(clock):
            return self
        return replace(self, confirmed_wall=clock.wall(), confirmed_steady=clock.steady())


@dataclass(frozen=True)
class Check:
    """The outcome of the last time that the service was asked; ``steady``: when that was."""

    is_good: bool
    reason: str
    steady: float


@dataclass(frozen=True)
class Standing:
    """A state with its reason."""

    state: NodeState
    reason: str


def judge(
    held: Held | None, check: Check | None, clock: Clock, silence_seconds: float, on_expired: OnExpired
) -> Standing:
    """The state now. ``silence_seconds``: a good check that is older than this says nothing any more."""
    last = "the service has not been asked yet" if check is None else check.reason
    if held is None:
        return Standing("NONE", _cut(f"there is no map, everything runs dense: {last}"))
    active = held.active
    name = f"version {active.version} (sequence {active.sequence})"
    now = held.now(clock)
    if now >= active.expires_at.timestamp():
        then = "it stays in use" if on_expired == "keep" else "everything runs dense"
        wall = clock.wall()
        back = f", which was set back; it is {time_text(now)} at least" if wall < now - 1.0 else ""
        return Standing(
            "EXPIRED",
            _cut(
                f"{name} expired at {time_text(active.expires_at)} and {then}; the clock of this machine says "
                f"{time_text(wall)}{back}; last check: {last}"
            ),
        )
    if check is None or not check.is_good:
        return Standing("STALE", _cut(f"{name} of the {held.source} is in use: {last}"))
    silence = clock.steady() - check.steady
    if silence > silence_seconds:
        return Standing("STALE", _cut(f"{name} is in use: nobody has asked the service for {silence:.0f} s"))
    return Standing("FRESH", _cut(f"{name} is in use: {last}"))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 3]}..."
