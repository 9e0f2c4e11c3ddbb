"""Turns: work that one person asks for again and again, of which only what was asked for last is still wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from api.problems import RATE_LIMITED, ProblemError

_RETRY_SECONDS = 1


class Turns:
    """One at a time is at work for each person of this process, and at most one more waits: the newest."""

    def __init__(self) -> None:
        self._waiting: dict[str, Future[bool] | None] = {}
        """Who waits behind whoever is at work, by person."""
        self._lock = threading.Lock()

    @contextmanager
    def of(self, person: str) -> Iterator[None]:
        """Wait for a turn of this person and have it; raises ProblemError when somebody newer waits instead."""
        if not self._take(person):
            raise ProblemError(
                RATE_LIMITED,
                "the same was asked for again before it was this request's turn; wait for that answer",
                {"Retry-After": str(_RETRY_SECONDS)},
            )
        try:
            yield
        finally:
            self._pass_on(person)

    def _take(self, person: str) -> bool:
        with self._lock:
            if person not in self._waiting:
                self._waiting[person] = None
                return True
            earlier, mine = self._waiting[person], Future[bool]()
            self._waiting[person] = mine
        if earlier is not None:
            earlier.set_result(False)
        return mine.result()

    def _pass_on(self, person: str) -> None:
        with self._lock:
            following = self._waiting.pop(person)
            if following is not None:
                self._waiting[person] = None
        if following is not None:
            following.set_result(True)
