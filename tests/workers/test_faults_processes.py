"""Worker processes that die, freeze, hang, run out of memory, or come twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.workers.cluster import SHORT_LEASE, SHORT_STALL


def state(pid: int) -> str:
    """State letter of a process: ``T`` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.fault(1)
def test_a_killed_worker_takes_its_chunk_back_as_soon_as_it_is_started_again(cluster):
    """Without waiting for its lease to end, and without doing again what it had stored."""
    job_id = cluster.catch_in_the_middle()
    cluster.kill("fake-0")
    cluster.start_worker()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.outcomes(job_id)["crashed"] == 1
    assert cluster.sql("SELECT last_error FROM chunks WHERE crash_count = 1") == [
        "the process of worker fake-0 ended"
    ]
    assert cluster.times_begun("2") == 2
    assert cluster.evaluated_once()


@pytest.mark.fault(2)
def test_a_killed_child_is_replaced_and_the_chunk_charged_with_a_crash(cluster):
    """As when the system is out of memory and picks the process that has most of it."""
    job_id = cluster.catch_in_the_middle()
    child = cluster.child_of("fake-0")
    os.kill(child, signal.SIGKILL)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.child_of("fake-0") != child
    assert cluster.processes["fake-0"].poll() is None
    assert cluster.sql("SELECT max(crash_count), sum(crash_count) FROM chunks") == [(1, 1)]
    assert cluster.evaluated_once()


def test_a_worker_whose_child_dies_while_it_starts_fails_so_that_it_is_started_again(cluster):
    """Whoever looks after it takes 0 for a worker that was asked to stop."""
    cluster.start_worker(loses_child_at_start=True)
    assert cluster.wait_for_exit("fake-0") == 1


@pytest.mark.fault(3)
def test_when_a_host_is_gone_another_worker_takes_over_once_the_lease_is_over(make_cluster):
    cluster = make_cluster(**SHORT_LEASE)
    job_id = cluster.catch_in_the_middle("gone")
    cluster.start_worker("other")
    cluster.child_of("other")
    cluster.kill("gone")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    stored = cluster.stored(job_id)
    assert (stored["0"], stored["2"]) == ("gone", "other")
    assert cluster.sql("SELECT last_error FROM chunks WHERE crash_count = 1") == [
        "worker gone gave no sign of life in time"
    ]
    assert cluster.evaluated_once()


@pytest.mark.fault(4)
@pytest.mark.parametrize("place", ["worker.before_flush", "worker.before_finish"])
def test_a_process_that_was_frozen_longer_than_its_lease_changes_nothing_when_it_thaws(make_cluster, place):
    """It sleeps with its figures in hand, and wakes while another worker is at the same chunk."""
    cluster = make_cluster(**SHORT_LEASE)
    cluster.start_reconciler()
    cluster.start_worker("frozen", failpoints={place: "once:stop"})
    frozen = cluster.child_of("frozen")
    job_id = cluster.submit()
    cluster.wait_for_mark(f"once-{place}")
    cluster.start_worker("other", failpoints={place: "hold"})
    cluster.wait_for_mark(f"held-{place}")

    def written() -> list[object]:
        return [
            *cluster.sql("SELECT to_jsonb(e)::text FROM evaluations AS e"),
            *cluster.sql("SELECT owner FROM attempts WHERE outcome = 'succeeded'"),
        ]

    before = written()
    os.kill(frozen, signal.SIGCONT)
    cluster.wait_for_log("frozen", "chunk lost to another worker")
    assert written() == before
    cluster.mark(f"go-{place}")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.stored(job_id)["dense"] == ("other" if place == "worker.before_flush" else "frozen")
    # It has lost its chunk and nothing else.
    cluster.kill("other")
    later = cluster.submit()
    assert cluster.wait_until_ended(later) == "succeeded"
    assert set(cluster.stored(later).values()) == {"frozen"}


@pytest.mark.fault(5)
def test_a_worker_whose_evaluation_never_returns_kills_itself_and_the_chunk_is_tried_again(make_cluster):
    cluster = make_cluster(**SHORT_STALL)
    job_id = cluster.catch_in_the_middle()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    cluster.wait_for_log("fake-0", "no forward finished in time")
    assert cluster.outcomes(job_id)["crashed"] == 1
    assert cluster.times_begun("2") == 2
    assert cluster.evaluated_once()


@pytest.mark.fault(6)
def test_a_process_that_cannot_even_be_killed_does_not_hold_up_its_job(make_cluster):
    """It gives no sign of life any more; its place stays closed, so nobody meets it on its device."""
    cluster = make_cluster(**SHORT_LEASE)
    cluster.start_reconciler()
    cluster.start_worker("stuck", failpoints={"worker.evaluate": "once:stop"})
    stuck = cluster.child_of("stuck")
    job_id = cluster.submit()
    cluster.wait_for_mark("once-worker.evaluate")
    cluster.start_worker("other")
    cluster.start_worker("next", place="stuck", lock_seconds=0.1)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.stored(job_id).values()) == {"other"}
    assert state(stuck) == "T"
    assert cluster.wait_for_exit("next") != 0
    cluster.wait_for_log("next", "another worker runs as stuck")


@pytest.mark.fault(7)
def test_running_out_of_memory_costs_one_try_of_one_group_and_no_process(cluster):
    cluster.start_reconciler()
    cluster.start_worker(on={"2": "once:oom"})
    child = cluster.child_of("fake-0")
    job_id = cluster.submit()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.errors(job_id) == ["MemoryError: out of memory at 2"]
    assert cluster.sql("SELECT sum(error_count), sum(crash_count) FROM chunks") == [(1, 0)]
    assert cluster.child_of("fake-0") == child
    assert cluster.evaluated_once()


@pytest.mark.fault(36)
def test_a_device_that_fails_on_everything_is_set_aside_and_the_chunks_are_not_charged(make_cluster):
    # Long pauses, so that the bad worker meets another chunk each time.
    cluster = make_cluster(quarantine_crashes=2, backoff_seconds=600, backoff_cap_seconds=600)
    jobs = [cluster.submit() for _ in range(3)]
    cluster.start_reconciler()
    cluster.start_worker("bad", failpoints={"worker.claimed": "kill"})
    cluster.until(
        lambda: cluster.sql("SELECT FROM workers WHERE quarantined_until > clock_timestamp()"),
        "the bad worker is set aside",
    )
    cluster.start_worker("good")
    assert {cluster.wait_until_ended(job_id) for job_id in jobs} == {"succeeded"}
    assert cluster.sql("SELECT sum(crash_count) FROM chunks") == [0]
    assert {owner for job_id in jobs for owner in cluster.stored(job_id).values()} == {"good"}


@pytest.mark.fault(37)
def test_a_second_process_for_one_place_refuses_to_start(cluster):
    cluster.start_reconciler()
    cluster.start_worker()
    cluster.child_of("fake-0")
    job_id = cluster.submit()
    cluster.start_worker("twin", place="fake-0", lock_seconds=0.1)
    assert cluster.wait_for_exit("twin") != 0
    cluster.wait_for_log("twin", "another worker runs as fake-0; stop it, or set SKIPMAP_SLOT")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.evaluated_once()
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
