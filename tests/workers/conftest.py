from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.standalone.valkey import ValkeyServer
from tests.workers.cluster import Cluster


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def make_cluster(
    tmp_path: Path, make_migrated_url: Callable[[], str], valkey: ValkeyServer
) -> Iterator[Callable[..., Cluster]]:
    """Make clusters with a database each and an empty broker; all of them end after the test."""
    made: list[Cluster] = []

    def make(**settings: Any) -> Cluster:
        import redis

        redis.Redis.from_url(valkey.client_url).flushall()
        made.append(Cluster(tmp_path / f"cluster-{len(made)}", make_migrated_url(), valkey, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster whose invariants are checked after the test."""
    made = make_cluster()
    yield made
    made.check()
