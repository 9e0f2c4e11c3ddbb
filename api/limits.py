"""Rate limits by token, counted in the broker; without it each process counts for itself."""

from __future__ import annotations

import threading
import time
from collections import Counter

import structlog
from flask import g, request
from limits import RateLimitItemPerMinute
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter, RateLimiter

from api.broker import client_url, timeouts
from api.problems import RATE_LIMITED, ProblemError
from api.settings import ApiSettings
from models.accounts import Principal

_PREFIX = "skipmap:limits"
_MINUTE_SECONDS = 60
_PAUSE_SECONDS = 5.0
"""After a failure the broker is left alone for so long."""
_SAFE = ("GET", "HEAD", "OPTIONS")
_log = structlog.get_logger(__name__)


class RateLimits:
    """So many reads and writes a minute. ``failures``: how often the broker could not be asked."""

    def __init__(self, settings: ApiSettings, broker_url: str | None) -> None:
        self._reads = RateLimitItemPerMinute(settings.reads_per_minute)
        self._writes = RateLimitItemPerMinute(settings.writes_per_minute)
        self._own = _OwnCounts()
        self._shared = None if broker_url is None else FixedWindowRateLimiter(_storage(broker_url))
        self._paused_until = 0.0
        self._lock = threading.Lock()
        self.failures = 0

    def check(self) -> None:
        """Count the request; raises ProblemError when there were too many of its kind this minute."""
        item = self._reads if request.method in _SAFE else self._writes
        principal: Principal | None = g.get("principal")
        who = f"token:{principal.token_id}" if principal else f"address:{request.remote_addr}"
        kind = "read" if item is self._reads else "write"
        if self._hit(item, kind, who):
            return
        seconds = _MINUTE_SECONDS - int(time.time()) % _MINUTE_SECONDS
        raise ProblemError(
            RATE_LIMITED,
            f"more than {item.amount} {kind}s a minute; wait {seconds} s",
            {"Retry-After": str(seconds)},
        )

    def _hit(self, item: RateLimitItemPerMinute, kind: str, who: str) -> bool:
        shared = self._usable()
        if shared is not None:
            try:
                return shared.hit(item, kind, who)
            except Exception as error:  # whatever it is, a request must not fail for it
                self._failed(error)
        return self._own.hit(kind, who) <= item.amount

    def _usable(self) -> RateLimiter | None:
        return self._shared if time.monotonic() >= self._paused_until else None

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.failures += 1
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
        _log.warning("rate limits are counted in memory", cause=type(error).__name__)


class _OwnCounts:
    """Requests of this process in the current minute."""

    def __init__(self) -> None:
        self._minute = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def hit(self, kind: str, who: str) -> int:
        """Count one more; returns how many there were this minute."""
        minute = int(time.time()) // _MINUTE_SECONDS
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._counts.clear()
            self._counts[kind, who] += 1
            return self._counts[kind, who]


def _storage(broker_url: str) -> Storage:
    url = client_url(broker_url)
    # ``limits`` names the protocol in front of the kind of connection.
    url = f"redis+{url}" if url.startswith("unix:") else url
    storage = storage_from_string(url, wrap_exceptions=False, key_prefix=_PREFIX, **timeouts())
    assert isinstance(storage, Storage)
    return storage
