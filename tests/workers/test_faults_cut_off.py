"""Processes that cannot reach a database that others can reach."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.workers.cluster import SHORT_LEASE, Cluster

SOCKET = ".s.PGSQL.5432"


class Detour:
    """A second way to the database, which can be closed. Paths of sockets must be short."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        url = make_url(cluster.settings.database_url)
        self._cluster, self._way = cluster, folder / SOCKET
        self._server = Path(str(url.query["host"])) / SOCKET
        self.open()
        self.address = url.update_query_dict({"host": str(folder)}).render_as_string(hide_password=False)

    def open(self) -> None:
        self._way.symlink_to(self._server)

    def close(self) -> None:
        """Connections that are there end too; processes on the straight way connect again."""
        self._way.unlink()
        self._cluster.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'skipmap-%'"
        )


@pytest.fixture
def make_detour() -> Iterator[Callable[[Cluster], Detour]]:
    with tempfile.TemporaryDirectory(prefix="detour-") as folder:
        yield lambda cluster: Detour(cluster, Path(folder))


def start_on(detour: Detour, cluster: Cluster, start: Callable[[], object]) -> None:
    straight, cluster.database_address = cluster.database_address, detour.address
    start()
    cluster.database_address = straight


def has_evaluated(cluster: Cluster, job_id: str, key: str) -> None:
    cluster.until(lambda: cluster.times_evaluated()[f"{job_id} {key}"], f"{key} is evaluated")


@pytest.mark.fault(17)
def test_a_worker_that_is_cut_off_for_less_than_its_lease_loses_nothing(cluster, make_detour):
    detour = make_detour(cluster)
    cluster.start_reconciler()
    start_on(detour, cluster, lambda: cluster.start_worker(on={"2": "mark:busy"}, slow={"2": 0.5}))
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    detour.close()
    has_evaluated(cluster, job_id, "3")
    assert set(cluster.stored(job_id)) == {"dense", "0", "1"}
    detour.open()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(17)
def test_a_worker_that_is_cut_off_for_longer_stores_nothing_more_of_its_chunk(make_cluster, make_detour):
    cluster = make_cluster(**SHORT_LEASE)
    detour = make_detour(cluster)
    cluster.start_reconciler()
    start_on(detour, cluster, lambda: cluster.start_worker("cut-off", on={"2": "mark:busy"}, slow={"2": 0.5}))
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    detour.close()
    has_evaluated(cluster, job_id, "3")
    cluster.start_worker("other")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.outcomes(job_id)["crashed"] == 1
    before = cluster.rows(job_id)
    detour.open()
    cluster.wait_for_log("cut-off", "chunk lost to another worker")
    assert cluster.rows(job_id) == before
    assert cluster.stored(job_id)["2"] == "other"


@pytest.mark.fault(17)
def test_a_reconciler_that_was_cut_off_does_not_take_the_silence_of_workers_for_their_death(
    make_cluster, make_detour
):
    """They have been cut off as well, and come back later than it does; the server has been there all the time."""
    cluster = make_cluster(**SHORT_LEASE)
    detour = make_detour(cluster)
    sweeps = {"reconciler.before_publish": "when:open:nth:2:mark:swept"}
    start_on(detour, cluster, lambda: cluster.start_reconciler(failpoints=sweeps))
    start_on(detour, cluster, lambda: cluster.start_worker(on={"2": "mark:busy"}, slow={"2": 0.5}))
    child = cluster.child_of("fake-0")
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    os.kill(child, signal.SIGSTOP)
    detour.close()
    cluster.until(
        lambda: cluster.sql("SELECT FROM chunks WHERE lease_expires_at < clock_timestamp()"),
        "the lease is over",
    )
    detour.open()
    cluster.mark("open")
    cluster.wait_for_mark("swept")
    assert cluster.sql("SELECT owner, crash_count FROM chunks WHERE kind = 'single'") == [("fake-0", 0)]
    os.kill(child, signal.SIGCONT)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()
