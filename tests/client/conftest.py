"""A scripted service and a client for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skipmap.client.client import Client
from skipmap.client.server import Server
from tests.client.scripted import Service


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


@pytest.fixture
def pauses() -> list[float]:
    """Seconds that the client would have waited."""
    return []


@pytest.fixture
def make_client(service: Service, pauses: list[float]) -> Iterator[Callable[..., Client]]:
    """Make a client that does not wait."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        server = Server(service.url, options.pop("token", "secret-token"))
        made.append(Client(server, pause=pauses.append, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client: Callable[..., Client]) -> Client:
    return make_client()
