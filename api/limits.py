"""Rate limits by token, counted in the broker; without it each process counts for itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

from flask import current_app, g, request

from api.counters import MinuteCounters
from api.problems import RATE_LIMITED, ProblemError
from api.settings import ApiSettings
from models.accounts import Principal

_PREFIX = "skipmap:limits"
_REFUSED_SECONDS = 1.0
"""Who has asked too often is refused for so long without asking the broker again."""
_BATCHES = 100
"""A limit is counted in so many steps, so that most requests cost the broker nothing; that is how exact it is."""
_MOST_CALLERS = 10_000
_SAFE = ("GET", "HEAD", "OPTIONS")
_WORDS = {"read": "reads", "write": "writes", "node": "requests of nodes"}


@dataclass(frozen=True)
class _Refusal:
    """Until when a caller is refused unasked, and when the count begins anew."""

    until: float
    resets_at: float


class RateLimits:
    """So many reads, writes and requests of nodes a minute."""

    def __init__(self, settings: ApiSettings, broker_url: str | None) -> None:
        self._most = {
            "read": settings.reads_per_minute,
            "write": settings.writes_per_minute,
            "node": settings.node_requests_per_minute,
        }
        self._counters = MinuteCounters(broker_url, _PREFIX, "rate limits")
        self._uncounted: Counter[tuple[str, str]] = Counter()
        self._refused: dict[tuple[str, str], _Refusal] = {}
        self._lock = threading.Lock()

    @property
    def failures(self) -> int:
        """How often the broker could not be asked."""
        return self._counters.failures

    def check(self) -> None:
        """Count the request; raises ProblemError when there were too many of its kind this minute."""
        principal: Principal | None = g.get("principal")
        kind = _kind(principal)
        key = (kind, f"token:{principal.token_id}" if principal else f"address:{request.remote_addr}")
        most, now = self._most[kind], time.time()
        refusal = self._refused.get(key)
        if refusal is None or now >= refusal.until:
            hits = self._due(key, max(1, most // _BATCHES))
            if not hits or self._counters.hit(key, most, hits):
                return
            refusal = _Refusal(now + _REFUSED_SECONDS, self._counters.resets_at(key, most))
            self._refused[key] = refusal
        seconds = max(1, round(refusal.resets_at - now))
        raise ProblemError(
            RATE_LIMITED,
            f"more than {most} {_WORDS[kind]} a minute; wait {seconds} s",
            {"Retry-After": str(seconds)},
        )

    def _due(self, key: tuple[str, str], batch: int) -> int:
        """How many requests are to be counted now; 0: this one will be counted with later ones."""
        with self._lock:
            if len(self._uncounted) + len(self._refused) > _MOST_CALLERS:
                self._uncounted.clear()
                self._refused.clear()
            self._uncounted[key] += 1
            if self._uncounted[key] < batch:
                return 0
            return self._uncounted.pop(key)


def _kind(principal: Principal | None) -> str:
    view = current_app.view_functions.get(request.endpoint or "")
    # Whoever shows no valid token is no node.
    rate: str | None = getattr(view, "rate", None) if principal else None
    return rate or ("read" if request.method in _SAFE else "write")
