"""Counters by minute, kept in the broker for all processes; without it each process counts for itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import cache

import structlog
from limits import RateLimitItemPerMinute
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from api.broker import client_url, timeouts

_MINUTE_SECONDS = 60
_PAUSE_SECONDS = 5.0
"""After a failure the broker is left alone for so long."""
_log = structlog.get_logger(__name__)


class MinuteCounters:
    """How often something happened this minute, by a key of words. ``failures``: of the broker.

    ``prefix``: of the broker's keys; ``what``: is counted, for the log.
    """

    def __init__(self, broker_url: str | None, prefix: str, what: str) -> None:
        self._shared = None if broker_url is None else FixedWindowRateLimiter(_storage(broker_url, prefix))
        self._what = what
        self._own: Counter[tuple[str, ...]] = Counter()
        self._minute = 0
        self._paused_until = 0.0
        self._lock = threading.Lock()
        self.failures = 0

    def hit(self, key: tuple[str, ...], most: int, hits: int = 1) -> bool:
        """Count; returns whether there were no more than ``most`` this minute."""
        shared = self._usable()
        if shared is not None:
            try:
                return shared.hit(_item(most), *key, cost=hits)
            except Exception as error:  # whatever it is, no request must fail for it
                self._failed(error)
        return self.hit_here(key, hits) <= most

    def hit_here(self, key: tuple[str, ...], hits: int = 1) -> int:
        """Count in this process alone; returns how many there were this minute."""
        minute = int(time.time()) // _MINUTE_SECONDS
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._own.clear()
            self._own[key] += hits
            return self._own[key]

    def resets_at(self, key: tuple[str, ...], most: int) -> float:
        """When the count begins anew, in seconds since 1970."""
        shared = self._usable()
        if shared is not None:
            try:
                return shared.get_window_stats(_item(most), *key).reset_time
            except Exception as error:
                self._failed(error)
        return (time.time() // _MINUTE_SECONDS + 1) * _MINUTE_SECONDS

    def _usable(self) -> FixedWindowRateLimiter | None:
        return self._shared if time.monotonic() >= self._paused_until else None

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.failures += 1
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
        _log.warning(f"{self._what} are counted in memory", cause=type(error).__name__)


@cache
def _item(most: int) -> RateLimitItemPerMinute:
    return RateLimitItemPerMinute(most)


def _storage(broker_url: str, prefix: str) -> Storage:
    url = client_url(broker_url)
    # ``limits`` names the protocol in front of the kind of connection.
    url = f"redis+{url}" if url.startswith("unix:") else url
    storage = storage_from_string(url, wrap_exceptions=False, key_prefix=prefix, **timeouts())
    assert isinstance(storage, Storage)
    return storage
