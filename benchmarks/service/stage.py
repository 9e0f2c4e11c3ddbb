"""Servers, workers and reconcilers for a measurement, with the evaluations of the tests' fake engine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.standalone.postgres import PostgresServer
from deploy.standalone.valkey import ValkeyServer
from migrations.run import upgrade
from models.jobs import ENDED
from skipmap.spec import JobSpec
from tests.models.bench import make_spec
from tests.workers.cluster import Cluster

LAYERS = 30
MAX_POOL = 12

# Those of production but for the lease, which nothing here lets run out.
STEADY = {
    "lease_seconds": 60.0,
    "heartbeat_seconds": 15.0,
    "watch_seconds": 0.5,
    "sweep_seconds": 0.5,
    "stall_seconds": 120.0,
    "load_seconds": 120.0,
    "cancel_grace_seconds": 30.0,
    "backoff_seconds": 2.0,
    "backoff_cap_seconds": 300.0,
    "redispatch_seconds": 60.0,
    "retry_seconds": 10.0,
}


class Stage(Cluster):
    """A cluster with servers of its own, whose commits reach the disk."""

    def __init__(self, folder: Path, postgres: PostgresServer, valkey: ValkeyServer, **settings: Any) -> None:
        self.postgres = postgres
        super().__init__(folder, postgres.url, valkey, **(STEADY | settings))

    def spec(self, **search: Any) -> JobSpec:
        """A search over 30 blocks: 12 in the pool, up to three skipped together, groups of one configuration."""
        return make_spec(**({"max_depth": 3, "max_pool": MAX_POOL, "group_size": 1} | search))

    def see_through(self, job_id: str, seconds: float = 600) -> None:
        """Wait for a job's success."""
        state = self.wait_until_ended(job_id, seconds)
        if state != "succeeded":
            raise RuntimeError(f"job {job_id} has {state}\n{self.logs()}")


@contextmanager
def stage(**settings: Any) -> Iterator[Stage]:
    """A stage in a temporary folder; everything ends with it."""
    with (
        tempfile.TemporaryDirectory(prefix="skipmap-bench-") as name,
        PostgresServer(Path(name) / "postgres") as postgres,
        ValkeyServer(Path(name) / "valkey") as valkey,
    ):
        upgrade(postgres.url)
        made = Stage(Path(name) / "cluster", postgres, valkey, **settings)
        try:
            yield made
        finally:
            made.stop()


def since(began: float) -> float:
    """Seconds since a ``time.monotonic()``."""
    return time.monotonic() - began


__all__ = ["ENDED", "LAYERS", "Stage", "since", "stage"]
