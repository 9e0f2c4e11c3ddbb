"""Turnstiles: who may use a connection next.

A pool that is waited on for a fixed time takes a busy process for a database that is away. Here one goes on waiting as
long as others are being answered, in the order of coming.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from models.errors import Unavailable
from models.patience import heard

_LATE_SECONDS = 0.2


class Crowded(Unavailable):
    """No connection came free in time: others of this process used them all, or the server keeps them waiting."""


class _Place:
    """A place in line; ``answered``: whether whoever made room had been answered."""

    def __init__(self) -> None:
        self.is_free = threading.Event()
        self.answered = False


class Turnstile:
    """Lets as many at a time through as there are places.

    Whoever waits gives up when nobody was answered for ``silent_seconds``, and after ``longest_seconds`` in any case.
    A wait that ends late tells nothing: this process was too busy to take an answer in.
    """

    def __init__(self, places: int, silent_seconds: float, longest_seconds: float) -> None:
        self._free = places
        self._silent_seconds, self._longest_seconds = silent_seconds, longest_seconds
        self._waiting: deque[_Place] = deque()
        self._answered_at = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a place and have it; raises Crowded. A block that ends without an error has been answered."""
        self._enter()
        answered = False
        try:
            yield
            answered = True
        finally:
            self._leave(answered)

    def _enter(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            place = _Place()
            self._waiting.append(place)
        began = silent_since = now = time.monotonic()
        while True:
            silent_since = max(silent_since, self._answered_at)
            seconds = min(silent_since + self._silent_seconds, began + self._longest_seconds) - now
            if seconds <= 0:
                self._give_up(place, now - began)
            if place.is_free.wait(seconds):
                # The wait for others was no silence of the server.
                heard(time.monotonic() if place.answered else silent_since)
                return
            until, now = now + seconds, time.monotonic()
            if now - until > _LATE_SECONDS:
                silent_since = now

    def _give_up(self, place: _Place, seconds: float) -> None:
        with self._lock:
            # Somebody may have left just now.
            if not place.is_free.is_set():
                self._waiting.remove(place)
                raise Crowded(f"no connection came free in {seconds:.1f} s; try again shortly")

    def _leave(self, answered: bool) -> None:
        with self._lock:
            if answered:
                self._answered_at = time.monotonic()
            if not self._waiting:
                self._free += 1
                return
            following = self._waiting.popleft()
        following.answered = answered
        following.is_free.set()
