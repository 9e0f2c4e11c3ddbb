"""When to ask the service again: jittered, spread over nodes, slower while it fails, and never outside bounds."""

from __future__ import annotations

import email.utils
import hashlib
import math
import random
import time
from dataclasses import dataclass

from skipmap.errors import InvalidInput

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 86_400.0
"""No pause between two requests is shorter or longer than this, whoever asks for it."""

DEFAULT_POLL_SECONDS = (30.0, 60.0)
LONGEST_LONG_POLL_SECONDS = LONGEST_DEADLINE_SECONDS = 300.0

_FIRST_BACK_OFF_SECONDS = 0.1
_DOUBLINGS = 32
_RETRY_AFTER_BOUND_SECONDS = 300.0
_RETRY_AFTER_SPREAD = 0.2
_AFTER_START_SECONDS = 5.0
_AFTER_CHANGE_SECONDS = 1.0
_HONOURED, _HONOURED_SECONDS = 0.5, 5.0
"""An answer that took this part of the wait that was asked for, or so long, shows that the service does wait."""


@dataclass(frozen=True)
class PollInterval:
    """Bounds, in seconds, of the pause between two polls."""

    low: float
    high: float

    @classmethod
    def of(cls, seconds: float | tuple[float, float], field: str = "poll_seconds") -> PollInterval:
        """Bounds from one number or a pair; raises InvalidInput for what is no interval."""
        low, high = seconds if isinstance(seconds, tuple) else (seconds, seconds)
        if not (SHORTEST_SECONDS <= low <= high <= LONGEST_SECONDS):
            raise InvalidInput(
                field,
                f"must be seconds from {SHORTEST_SECONDS} to {LONGEST_SECONDS:.0f}, the shorter first "
                f"(given: {seconds!r})",
            )
        return cls(float(low), float(high))


def long_poll_of(seconds: float | None, field: str = "long_poll_seconds") -> float | None:
    """A wait to ask the service for; raises InvalidInput when it is out of bounds."""
    if seconds is not None and not (1.0 <= seconds <= LONGEST_LONG_POLL_SECONDS):
        raise InvalidInput(
            field, f"must be seconds from 1 to {LONGEST_LONG_POLL_SECONDS:.0f}, or None (given: {seconds!r})"
        )
    return seconds


def deadline_of(seconds: float, field: str = "deadline_seconds") -> float:
    """Time for one exchange; raises InvalidInput when it is out of bounds."""
    if not (SHORTEST_SECONDS <= seconds <= LONGEST_DEADLINE_SECONDS):
        raise InvalidInput(
            field,
            f"must be seconds from {SHORTEST_SECONDS} to {LONGEST_DEADLINE_SECONDS:.0f} (given: {seconds!r})",
        )
    return seconds


def offset_of(node: str) -> float:
    """Place of a node in [0, 1) that stays the same as long as its name does."""
    return int.from_bytes(hashlib.sha256(node.encode()).digest()[:7], "big") / 2**56


def retry_after(text: str | None) -> float | None:
    """Seconds that a Retry-After header asks for; None when it does not say."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment.timestamp() - time.time())


class Schedule:
    """The pauses of one client in one process. ``node``: its name, which spreads nodes that start together."""

    def __init__(
        self,
        interval: PollInterval,
        node: str,
        long_poll_seconds: float | None = None,
        source: random.Random | None = None,
    ) -> None:
        self.interval, self.long_poll_seconds = interval, long_poll_seconds
        self._offset = offset_of(node)
        # A generator of its own: after a fork the shared one gives every child the same numbers.
        self._random = source or random.Random()
        self._failures = 0
        self._is_first = True
        self._has_hurried = False

    def at_start(self, has_map: bool) -> float:
        """Seconds until the first poll; at once when there is nothing to act on."""
        return _clamped(self._offset * min(self.interval.low, _AFTER_START_SECONDS)) if has_map else 0.0

    def after_success(self, *, changed: bool, asked_to_wait: float | None, seconds: float) -> float:
        """Seconds until the next poll, after one that took ``seconds``.

        ``asked_to_wait``: of a long poll, None of another one. A long poll follows closely on a poll that brought
        something new or did wait, and once on one that was not to wait; a service that answers at once is polled like
        any other.
        """
        self._failures = 0
        if asked_to_wait is not None and (changed or seconds >= _honoured(asked_to_wait)):
            self._has_hurried = False
            return self._soon()
        if self.long_poll_seconds is not None and asked_to_wait is None and not self._has_hurried:
            self._has_hurried = True
            return self._soon()
        if self._is_first:
            # Nodes of one rollout start within the same second; from here on they are spread over the interval.
            self._is_first = False
            return _clamped(self._offset * self.interval.high)
        return _clamped(self._random.uniform(self.interval.low, self.interval.high))

    def after_failure(self, asked: float | None = None) -> float:
        """Seconds until the next try; ``asked``: what the service's Retry-After says."""
        back_off = _FIRST_BACK_OFF_SECONDS * 2.0 ** min(self._failures, _DOUBLINGS)
        self._failures += 1
        pause = min(back_off, self.interval.high) * self._random.uniform(0.5, 1.0)
        if asked is not None and math.isfinite(asked):
            bounded = min(asked, max(self.interval.high, _RETRY_AFTER_BOUND_SECONDS))
            # A little more for some, or all of them come back in the same second.
            pause = max(pause, bounded * (1.0 + self._random.uniform(0.0, _RETRY_AFTER_SPREAD)))
        return _clamped(pause)

    def _soon(self) -> float:
        # All who waited are answered at once; they need not come back in the same moment.
        return _clamped(self._random.uniform(0.0, _AFTER_CHANGE_SECONDS))


def _honoured(wait: float) -> float:
    return min(_HONOURED * wait, _HONOURED_SECONDS)


def _clamped(seconds: float) -> float:
    return min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
