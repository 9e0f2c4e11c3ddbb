"""The broker's transport, which lets only rings through: whoever can write to the broker can ring, and no more.

A message of Celery's may ask for more (a time limit that ends the process, a task to call next), and one that is no
message ends the worker that reads it. So each is taken apart, and what is handed on is made anew from its arguments.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import structlog
from kombu.transport import redis

RING = "skipmap.ring"
_JSON = "application/json"

_log = structlog.get_logger(__name__)


class Channel(redis.Channel):
    """A channel that outlives what is no JSON."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (json.JSONDecodeError, RecursionError):
            _log.warning("threw away a message that is no JSON")
            return True


class Transport(redis.Transport):
    """Kombu's transport for Redis and Valkey, with rings only."""

    Channel = Channel

    def _deliver(self, message: Any, queue: str) -> None:
        ring = _ring_in(message, queue)
        if ring is None:
            # Its sender may have put anything into it, so it is not repeated here.
            _log.warning("threw away a message that is no ring")
            return
        super()._deliver(ring, queue)  # type: ignore[no-untyped-call]


def _ring_in(message: Any, queue: str) -> dict[str, Any] | None:
    """A clean message with the arguments of this one; None when it does not ring."""
    try:
        arguments = json.loads(b64decode(message["body"]))[0]
        task, kind = message["headers"]["task"], message["content-type"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    if task != RING or kind != _JSON or not isinstance(arguments, list):
        return None
    return _message(arguments, queue)


def _message(arguments: list[Any], queue: str) -> dict[str, Any]:
    call: tuple[list[Any], Mapping[str, Any], Mapping[str, Any]] = (arguments, {}, {})
    return {
        "body": b64encode(json.dumps(call).encode()).decode(),
        "content-type": _JSON,
        "content-encoding": "utf-8",
        "headers": {"lang": "py", "task": RING, "id": str(uuid4())},
        "properties": {
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
            "delivery_info": {"exchange": "", "routing_key": queue},
        },
    }
