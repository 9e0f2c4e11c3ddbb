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
    """Make clusters with a database each and an empty broker, unless others are given; settings as keywords.

    After the test all of them end, and what they have stored must make sense.
    """
    made: list[Cluster] = []

    def make(database_url: str | None = None, broker: ValkeyServer = valkey, **settings: Any) -> Cluster:
        folder = tmp_path / f"cluster-{len(made)}"
        made.append(Cluster(folder, database_url or make_migrated_url(), broker, **settings))
        made[-1].broker.flushall()
        return made[-1]

    yield make
    try:
        for cluster in made:
            cluster.end_processes()
            cluster.check()
    finally:
        for cluster in made:
            cluster.stop()


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster with settings as fast as they may be."""
    return make_cluster()
