"""Cancel, pause and drain at bad moments."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress

import pytest

from models.control import pause, resume
from models.errors import Conflict
from tests.workers.cluster import OF_WORKERS

NEVER = 600.0


@pytest.mark.fault(31)
def test_cancel_of_an_idle_job_twice(cluster):
    job_id = cluster.submit()
    cluster.cancel(job_id)
    cluster.cancel(job_id)
    cluster.start_reconciler()
    assert cluster.wait_until_ended(job_id) == "cancelled"
    before = cluster.rows(job_id)
    cluster.cancel(job_id)
    # A worker that comes later has nothing to do with it.
    cluster.start_worker()
    other = cluster.submit()
    assert cluster.wait_until_ended(other) == "succeeded"
    assert cluster.rows(job_id) == before
    assert cluster.outcomes(job_id) == {}


@pytest.mark.fault(31)
def test_cancel_of_a_running_job_stops_its_worker_at_the_next_forward(make_cluster):
    cluster = make_cluster(cancel_grace_seconds=NEVER)
    cluster.start_reconciler()
    cluster.start_worker(on={"2": "mark:busy"}, slow={"2": NEVER})
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    cluster.cancel(job_id)
    assert cluster.wait_until_ended(job_id) == "cancelled"
    assert cluster.outcomes(job_id) == {"succeeded": 1, "cancelled": 1}
    # What was stored stays, and the worker is free.
    assert set(cluster.stored(job_id)) == {"dense", "0", "1"}
    other = cluster.submit()
    cluster.until(lambda: cluster.stored(other), "something else is stored")


@pytest.mark.fault(31)
def test_cancel_of_a_job_whose_worker_hangs_waits_for_it_no_longer_than_the_grace(make_cluster):
    """And nothing that the worker brings later is stored."""
    cluster = make_cluster(cancel_grace_seconds=0.2)
    cluster.start_reconciler()
    cluster.start_worker(failpoints={"worker.before_flush": "once:hold"})
    job_id = cluster.submit()
    cluster.wait_for_mark("held-worker.before_flush")
    cluster.cancel(job_id)
    assert cluster.wait_until_ended(job_id) == "cancelled"
    before = cluster.rows(job_id)
    cluster.mark("go-worker.before_flush")
    cluster.wait_for_log("fake-0", "chunk lost to another worker")
    assert cluster.rows(job_id) == before
    assert cluster.stored(job_id) == {}


@pytest.mark.fault(31)
@pytest.mark.parametrize(
    "rounds", [pytest.param(5, id="5"), pytest.param(200, id="200", marks=pytest.mark.slow)]
)
def test_cancel_while_a_chunk_is_being_finished(cluster, rounds):
    """Whichever comes first wins, and nothing follows."""
    rng = random.Random(0)
    cluster.start_reconciler()
    cluster.start_worker(seconds_per_unit=0.005)

    def end(job_id: str) -> str:
        with suppress(Conflict):
            cluster.cancel(job_id)
        return cluster.wait_until_ended(job_id)

    ends = Counter()
    for _ in range(rounds):
        job_id = cluster.submit()
        cluster.until(lambda job_id=job_id: cluster.stored(job_id), "something is stored")
        time.sleep(rng.uniform(0.0, 0.1))
        ends[end(job_id)] += 1
        before = cluster.rows(job_id)
        # The worker is through with it once it has taken up something else.
        other = cluster.submit(priority=9)
        cluster.until(lambda other=other: cluster.stored(other), "something else is stored")
        assert cluster.rows(job_id) == before
        end(other)
    assert ends.keys() <= {"cancelled", "succeeded"}
    assert ends["cancelled"] > 0


def change(cluster, how, job_id: str, state: str) -> None:
    cluster.database.transaction(how, job_id)
    cluster.until(lambda: cluster.state(job_id) == state, f"{job_id} is {state}")


@pytest.mark.fault(32)
@pytest.mark.parametrize(
    "rounds", [pytest.param(4, id="4"), pytest.param(50, id="50", marks=pytest.mark.slow)]
)
def test_pause_and_resume_again_and_again_under_load(cluster, rounds):
    rng = random.Random(0)
    cluster.start_reconciler()
    for name in ("fake-0", "fake-1"):
        cluster.start_worker(name, layers=8, seconds_per_unit=0.05)
    jobs = []
    for number in range(rounds):
        jobs.append(job_id := cluster.submit(priority=1))
        cluster.until(lambda job_id=job_id: cluster.stored(job_id), "somebody works on it")
        time.sleep(rng.uniform(0.0, 0.1))
        change(cluster, pause, job_id, "paused")
        before = cluster.rows(job_id, OF_WORKERS)
        # Meanwhile workers claim whatever they may.
        jobs.append(other := cluster.submit(priority=9))
        cluster.until(lambda other=other: cluster.stored(other), f"somebody claims, round {number}")
        assert cluster.rows(job_id, OF_WORKERS) == before
        change(cluster, resume, job_id, "running")
    for job_id in jobs:
        assert cluster.wait_until_ended(job_id) == "succeeded"
        assert set(cluster.outcomes(job_id)) <= {"succeeded", "released"}
    assert cluster.sql("SELECT sum(crash_count + error_count) FROM chunks") == [0]
    assert cluster.evaluated_once()


@pytest.mark.fault(32)
def test_a_worker_that_dies_while_its_job_is_being_paused(cluster):
    job_id = cluster.catch_in_the_middle()
    cluster.database.transaction(pause, job_id)
    os.kill(cluster.child_of("fake-0"), signal.SIGKILL)
    cluster.until(lambda: cluster.state(job_id) == "paused", "the job is paused")
    change(cluster, resume, job_id, "running")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.outcomes(job_id)["crashed"] == 1
    assert cluster.evaluated_once()


@pytest.mark.fault(33)
def test_a_worker_that_is_asked_to_stop_gives_its_chunk_back_unspent(cluster):
    cluster.start_reconciler()
    cluster.start_worker(on={"2": "mark:busy"}, slow={"2": NEVER})
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    cluster.kill("fake-0", signal.SIGTERM)
    assert cluster.wait_for_exit("fake-0") == 0
    assert cluster.sql(
        "SELECT state, attempt, crash_count, error_count FROM chunks WHERE kind = 'single'"
    ) == [("pending", 0, 0, 0)]
    assert cluster.outcomes(job_id) == {"succeeded": 1, "released": 1}
    # Everything that was evaluated is stored.
    assert {key.split()[1] for key in cluster.times_evaluated()} == set(cluster.stored(job_id))
    cluster.start_worker()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.evaluated_once()


@pytest.mark.fault(33)
def test_a_worker_that_cannot_stop_in_time_and_is_killed_loses_only_what_was_not_stored(cluster):
    job_id = cluster.catch_in_the_middle()
    cluster.kill("fake-0", signal.SIGTERM)
    cluster.until(lambda: cluster.sql("SELECT FROM workers WHERE draining"), "the worker drains")
    assert cluster.processes["fake-0"].poll() is None
    os.killpg(cluster.processes["fake-0"].pid, signal.SIGKILL)
    cluster.wait_for_exit("fake-0")
    cluster.start_worker()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.outcomes(job_id)["crashed"] == 1
    assert cluster.times_begun("2") == 2
    assert cluster.evaluated_once()
