"""The broker, as far as the API cares: whether it answers, and where rate limits are counted."""

from __future__ import annotations

from typing import Any

import redis

TIMEOUT_SECONDS = 1.0
_CELERY_SOCKET = "redis+socket://"


class Broker:
    """A Redis or Valkey server that the API can do without."""

    def __init__(self, url: str | None) -> None:
        self._client: redis.Redis | None = None
        if url is not None:
            self._client = redis.Redis.from_url(client_url(url), **timeouts())

    def answers(self) -> bool | None:
        """Whether it answers within a second; None when none is configured."""
        if self._client is None:
            return None
        try:
            return bool(self._client.ping())
        except (redis.RedisError, OSError):
            return False

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


def timeouts() -> dict[str, Any]:
    """Options of a client that must not keep a request waiting."""
    return {
        "socket_timeout": TIMEOUT_SECONDS,
        "socket_connect_timeout": TIMEOUT_SECONDS,
        "retry": None,
    }


def client_url(url: str) -> str:
    """Celery's address of a broker in the form that redis-py takes."""
    return "unix://" + url.removeprefix(_CELERY_SOCKET) if url.startswith(_CELERY_SOCKET) else url
