"""A job whose worker is disturbed while it ranks blocks: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import os
import signal

import pytest

from models.control import pause, resume
from tests.models.bench import make_spec

NEVER = 600.0
SPEC = make_spec(strategy="sleb", max_depth=3, group_size=1)
HELD = "rank 2"
"""A unit in the middle of the first level that ranks: dense and 1 come before it, 3 after it."""


def ranked(cluster, job_id: str) -> set[str]:
    return set(cluster.sql("SELECT skip_key FROM ranks WHERE job_id = :id", id=job_id))


def figures(cluster, job_id: str) -> dict[str, list[tuple]]:
    """What is stored of a job, whoever found it and when."""
    columns = {"ranks": "skip_key, depth, value", "evaluations": "skip_key, accept_length, metric"}
    return {
        table: cluster.sql(f"SELECT {names} FROM {table} WHERE job_id = :id ORDER BY 1", id=job_id)
        for table, names in columns.items()
    }


def submit_and_wait(cluster, mark: str) -> str:
    cluster.start_reconciler()
    job_id = cluster.submit(SPEC)
    cluster.wait_for_mark(mark)
    assert ranked(cluster, job_id) == {"dense", "1"}
    return job_id


def undisturbed(cluster) -> dict[str, list[tuple]]:
    """What the same search finds when nothing happens to it."""
    job_id = cluster.submit(SPEC)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    return figures(cluster, job_id)


@pytest.mark.fault(39)
def test_a_child_that_is_killed_while_it_ranks(cluster):
    cluster.start_worker(on={HELD: "once:hang"})
    job_id = submit_and_wait(cluster, f"once-{HELD}")
    os.kill(cluster.child_of("fake-0"), signal.SIGKILL)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.outcomes(job_id)["crashed"] == 1
    assert cluster.times_begun(HELD) == 2
    assert cluster.evaluated_once()
    assert figures(cluster, job_id) == undisturbed(cluster)


@pytest.mark.fault(39)
def test_a_configuration_that_kills_whoever_ranks_it_fails_the_job(cluster):
    cluster.start_worker(on={HELD: "kill"})
    cluster.start_reconciler()
    job_id = cluster.submit(SPEC)
    assert cluster.wait_until_ended(job_id) == "failed"
    assert ranked(cluster, job_id) == {"dense", "1", "3"}
    assert cluster.sql("SELECT kind, groups FROM chunks WHERE state = 'failed'") == [("rank", [["2"]])]


@pytest.mark.fault(39)
def test_a_pause_while_blocks_are_ranked(cluster):
    cluster.start_worker(on={HELD: "once:mark:busy"}, slow={HELD: 2.0})
    job_id = submit_and_wait(cluster, "busy")
    cluster.database.transaction(pause, job_id)
    cluster.until(lambda: cluster.state(job_id) == "paused", "the job is paused")
    assert ranked(cluster, job_id) == {"dense", "1"}
    cluster.database.transaction(resume, job_id)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.outcomes(job_id).keys() == {"succeeded", "released"}
    assert cluster.evaluated_once()


@pytest.mark.fault(39)
def test_a_cancel_while_blocks_are_ranked(make_cluster):
    cluster = make_cluster(cancel_grace_seconds=NEVER)
    cluster.start_worker(on={HELD: "mark:busy"}, slow={HELD: NEVER})
    job_id = submit_and_wait(cluster, "busy")
    cluster.cancel(job_id)
    assert cluster.wait_until_ended(job_id) == "cancelled"
    assert ranked(cluster, job_id) == {"dense", "1"}


@pytest.mark.fault(39)
def test_a_worker_that_thaws_after_another_one_has_ranked_its_group(make_cluster):
    """What the first owner brings late changes nothing."""
    cluster = make_cluster(lease_seconds=3.0)
    cluster.start_worker("frozen", failpoints={"worker.before_flush": "nth:4:stop"})
    cluster.start_reconciler()
    job_id = cluster.submit(SPEC)
    cluster.until(lambda: ranked(cluster, job_id) == {"dense", "1"}, "two are ranked")
    cluster.start_worker("other")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    before = cluster.rows(job_id)
    os.kill(cluster.child_of("frozen"), signal.SIGCONT)
    cluster.wait_for_log("frozen", "chunk lost to another worker")
    assert cluster.rows(job_id) == before
