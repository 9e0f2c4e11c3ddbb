"""A broker that forgets, dies, stays away, is full, or loses a message on its way."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.standalone.valkey import ValkeyServer
from models.dispatch import dispatch
from tests.workers.cluster import QUEUE


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A broker of this test's own."""
    with ValkeyServer(tmp_path / "valkey") as server:
        yield server


def kill(server: ValkeyServer, cluster) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    cluster.until(lambda: not server.is_running, "the broker is dead")


@pytest.mark.fault(9)
def test_a_broker_that_forgets_everything_is_filled_again_at_once(make_cluster):
    cluster = make_cluster(redispatch_seconds=600)
    cluster.start_reconciler()
    cluster.start_worker()
    cluster.stop_receiving("fake-0")
    jobs = [cluster.submit() for _ in range(4)]
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 3, "as many messages as there may be")
    cluster.broker.flushall()
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 3, "as many messages again")
    assert cluster.sql("SELECT dispatches FROM chunks ORDER BY id") == [2, 2, 2, 0]
    # The one they are for dies before it has read any.
    cluster.kill("fake-0")
    cluster.broker.flushall()
    cluster.start_worker()
    assert {cluster.wait_until_ended(job_id) for job_id in jobs} == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(10)
@pytest.mark.parametrize("kept", [True, False], ids=["data kept", "data gone"])
def test_a_broker_that_crashes_and_comes_back_costs_nothing(make_cluster, mortal, kept):
    """The chunk at hand does not even notice."""
    cluster = make_cluster(broker=mortal)
    cluster.start_reconciler()
    worker = cluster.start_worker(on={"2": "mark:busy"}, slow={"2": 1.0})
    first = cluster.submit()
    cluster.wait_for_mark("busy")
    second = cluster.submit()
    kill(mortal, cluster)
    if not kept:
        shutil.rmtree(mortal.data_dir / "data")
    mortal.start()
    assert {cluster.wait_until_ended(job_id) for job_id in (first, second)} == {"succeeded"}
    # This one needs a message that comes through.
    third = cluster.submit()
    assert cluster.wait_until_ended(third) == "succeeded"
    assert worker.poll() is None
    assert cluster.sql("SELECT DISTINCT outcome FROM attempts") == ["succeeded"]
    assert cluster.evaluated_once()


@pytest.mark.fault(11)
def test_while_the_broker_is_away_jobs_are_accepted_and_workers_finish_what_they_can(make_cluster, mortal):
    cluster = make_cluster(broker=mortal)
    cluster.start_reconciler()
    worker = cluster.start_worker(on={"2": "mark:busy"})
    first = cluster.submit()
    cluster.wait_for_mark("busy")
    kill(mortal, cluster)
    second = cluster.submit()
    # A worker that is at work finds the next chunk without a message, of its own job and of others.
    assert cluster.wait_until_ended(first) == "succeeded"
    cluster.wait_until_ended(second)
    third = cluster.submit()
    cluster.wait_for_sweeps()
    assert cluster.sql("SELECT state, dispatches FROM chunks WHERE job_id = :id", id=third) == [
        ("pending", 0)
    ]
    assert (worker.poll(), cluster.processes["reconciler-0"].poll()) == (None, None)
    mortal.start()
    assert cluster.wait_until_ended(third) == "succeeded"
    assert cluster.sql("SELECT DISTINCT outcome FROM attempts") == ["succeeded"]


@pytest.mark.fault(12)
def test_while_the_broker_is_full_nothing_counts_as_sent(cluster):
    cluster.start_worker()
    cluster.start_reconciler()
    cluster.child_of("fake-0")
    cluster.broker.config_set("maxmemory", 1)
    try:
        job_id = cluster.submit()
        cluster.wait_for_sweeps()
        assert cluster.sql("SELECT state, dispatched_at FROM chunks") == [("pending", None)]
        cluster.wait_for_log("reconciler-0", "the broker does not answer; jobs wait")
    finally:
        cluster.broker.config_set("maxmemory", 0)
    assert cluster.wait_until_ended(job_id) == "succeeded"


@pytest.mark.fault(13)
def test_a_message_that_is_lost_on_its_way_to_a_worker_is_sent_again(cluster):
    """The worker's main process freezes while it waits for messages: the broker sends it one, and it never reads it."""
    # Nothing is new to a reconciler that comes later.
    cluster.broker.set("skipmap:canary", 1)
    cluster.start_worker()
    cluster.child_of("fake-0")
    job_id = cluster.submit()
    (doorbell,) = cluster.database.transaction(dispatch, cluster.settings)

    def is_lost() -> bool:
        cluster.kill("fake-0", signal.SIGSTOP)
        cluster.ring(doorbell.chunk_id)
        if cluster.broker.llen(QUEUE) == 0:
            return True
        # It was not waiting just then.
        cluster.broker.delete(QUEUE)
        cluster.kill("fake-0", signal.SIGCONT)
        return False

    cluster.until(is_lost, "a message is lost")
    cluster.kill("fake-0")
    cluster.start_worker()
    cluster.start_reconciler()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.sql("SELECT dispatches FROM chunks WHERE kind = 'dense'") == [2]
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
