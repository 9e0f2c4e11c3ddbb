"""Rate limits by token, counted in the broker; without it each process counts for itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

import structlog
from flask import current_app, g, request
from limits import RateLimitItemPerMinute
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from api.broker import client_url, timeouts
from api.problems import RATE_LIMITED, ProblemError
from api.settings import ApiSettings
from models.accounts import Principal

_PREFIX = "skipmap:limits"
_MINUTE_SECONDS = 60
_PAUSE_SECONDS = 5.0
"""After a failure the broker is left alone for so long."""
_REFUSED_SECONDS = 1.0
"""Who has asked too often is refused for so long without asking the broker again."""
_BATCHES = 100
"""A limit is counted in so many steps, so that most requests cost the broker nothing; that is how exact it is."""
_MOST_CALLERS = 10_000
_SAFE = ("GET", "HEAD", "OPTIONS")
_WORDS = {"read": "reads", "write": "writes", "node": "requests of nodes"}
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Refusal:
    """Until when a caller is refused unasked, and when the count begins anew."""

    until: float
    resets_at: float


class RateLimits:
    """So many reads, writes and requests of nodes a minute. ``failures``: how often the broker could not be asked."""

    def __init__(self, settings: ApiSettings, broker_url: str | None) -> None:
        self._items = {
            "read": RateLimitItemPerMinute(settings.reads_per_minute),
            "write": RateLimitItemPerMinute(settings.writes_per_minute),
            "node": RateLimitItemPerMinute(settings.node_requests_per_minute),
        }
        self._own = _OwnCounts()
        self._shared = None if broker_url is None else FixedWindowRateLimiter(_storage(broker_url))
        self._paused_until = 0.0
        self._uncounted: Counter[tuple[str, str]] = Counter()
        self._refused: dict[tuple[str, str], _Refusal] = {}
        self._lock = threading.Lock()
        self.failures = 0

    def check(self) -> None:
        """Count the request; raises ProblemError when there were too many of its kind this minute."""
        principal: Principal | None = g.get("principal")
        kind = _kind(principal)
        who = f"token:{principal.token_id}" if principal else f"address:{request.remote_addr}"
        item, now = self._items[kind], time.time()
        refusal = self._refused.get((kind, who))
        if refusal is None or now >= refusal.until:
            hits = self._due(kind, who, max(1, item.amount // _BATCHES))
            if not hits or self._hit(item, kind, who, hits):
                return
            refusal = _Refusal(now + _REFUSED_SECONDS, self._resets_at(item, kind, who))
            self._refused[kind, who] = refusal
        seconds = max(1, round(refusal.resets_at - now))
        raise ProblemError(
            RATE_LIMITED,
            f"more than {item.amount} {_WORDS[kind]} a minute; wait {seconds} s",
            {"Retry-After": str(seconds)},
        )

    def _due(self, kind: str, who: str, batch: int) -> int:
        """How many requests are to be counted now; 0: this one will be counted with later ones."""
        with self._lock:
            if len(self._uncounted) + len(self._refused) > _MOST_CALLERS:
                self._uncounted.clear()
                self._refused.clear()
            self._uncounted[kind, who] += 1
            if self._uncounted[kind, who] < batch:
                return 0
            return self._uncounted.pop((kind, who))

    def _hit(self, item: RateLimitItemPerMinute, kind: str, who: str, hits: int) -> bool:
        shared = self._usable()
        if shared is not None:
            try:
                return shared.hit(item, kind, who, cost=hits)
            except Exception as error:  # whatever it is, a request must not fail for it
                self._failed(error)
        return self._own.hit(kind, who, hits) <= item.amount

    def _resets_at(self, item: RateLimitItemPerMinute, kind: str, who: str) -> float:
        shared = self._usable()
        if shared is not None:
            try:
                return shared.get_window_stats(item, kind, who).reset_time
            except Exception as error:
                self._failed(error)
        return (time.time() // _MINUTE_SECONDS + 1) * _MINUTE_SECONDS

    def _usable(self) -> FixedWindowRateLimiter | None:
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

    def hit(self, kind: str, who: str, hits: int) -> int:
        """Count more; returns how many there were this minute."""
        minute = int(time.time()) // _MINUTE_SECONDS
        with self._lock:
            if minute != self._minute:
                self._minute = minute
                self._counts.clear()
            self._counts[kind, who] += hits
            return self._counts[kind, who]


def _kind(principal: Principal | None) -> str:
    view = current_app.view_functions.get(request.endpoint or "")
    # Whoever shows no valid token is no node.
    rate: str | None = getattr(view, "rate", None) if principal else None
    return rate or ("read" if request.method in _SAFE else "write")


def _storage(broker_url: str) -> Storage:
    url = client_url(broker_url)
    # ``limits`` names the protocol in front of the kind of connection.
    url = f"redis+{url}" if url.startswith("unix:") else url
    storage = storage_from_string(url, wrap_exceptions=False, key_prefix=_PREFIX, **timeouts())
    assert isinstance(storage, Storage)
    return storage
