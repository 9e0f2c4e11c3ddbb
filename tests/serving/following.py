"""A client that follows a ChannelServer, and what it tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from skipmap.serving.events import MapEvent
from skipmap.serving.map_client import MapClient
from skipmap.serving.standing import Clock
from tests.serving.channel_server import CHANNEL, FINGERPRINT, MAP, NUM_LAYERS, ChannelServer

E = TypeVar("E", bound=MapEvent)


@dataclass
class FakeClock:
    """The real clocks, moved by hand."""

    wall_moved: float = 0.0
    steady_moved: float = 0.0

    @property
    def clock(self) -> Clock:
        return Clock(lambda: time.time() + self.wall_moved, lambda: time.monotonic() + self.steady_moved)

    def pass_by(self, seconds: float) -> None:
        self.wall_moved += seconds
        self.steady_moved += seconds


@dataclass
class Events:
    """All events of a client, in order."""

    seen: list[MapEvent] = field(default_factory=list)

    def __call__(self, event: MapEvent) -> None:
        self.seen.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.seen if isinstance(event, kind)]


def client_of(service: ChannelServer, **changes: Any) -> MapClient:
    """A client that is not started yet, and polls fast."""
    options: dict[str, Any] = {
        "trusted_keys": service.keys.trusted(),
        "fingerprint": FINGERPRINT,
        "num_layers": NUM_LAYERS,
        "poll_seconds": (0.1, 0.2),
        "deadline_seconds": 1.0,
    }
    return MapClient(service.url, MAP, CHANNEL, **options | changes)


@contextmanager
def following(service: ChannelServer, **changes: Any) -> Iterator[MapClient]:
    client = client_of(service, **changes)
    with client:
        yield client
    assert client.stop(timeout=5.0), "a thread is left over"


def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.005)
