"""Levels whose finishers come all at once or die, and reconcilers that die or are too many."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import models.sweep
from models.database import Database
from models.dispatch import undispatch
from tests.workers.cluster import QUEUE
from workers.reconciler import Broker, Reconciler


@pytest.mark.fault(26)
def test_workers_that_finish_a_level_at_once_advance_it_once(cluster):
    """Each finishes the last chunk of the level, as far as it can see."""
    workers = ["fake-0", "fake-1", "fake-2"]
    cluster.start_reconciler()
    for name in workers:
        # The barrier is up once the level of single blocks is at work, whose three groups become three chunks.
        cluster.start_worker(
            name,
            on=dict.fromkeys(("0", "2", "4"), "mark:single"),
            failpoints={"worker.before_finish": "when:single:crowd:3"},
        )
    for name in workers:
        cluster.child_of(name)
    job_id = cluster.submit()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    made = "SELECT count(*), count(DISTINCT payload->'idx') FROM events WHERE kind = 'level' AND payload->>'state' = "
    for state in ("'running'", "'done'"):
        ((count, levels),) = cluster.sql(made + state)
        assert count == levels
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(27)
def test_when_a_finisher_dies_before_it_advances_the_level_a_reconciler_does(cluster):
    """Every worker process dies there, so no level is advanced by anybody else."""
    cluster.start_reconciler()
    cluster.start_worker(failpoints={"worker.before_advance": "kill"})
    job_id = cluster.submit()
    cluster.until(
        lambda: cluster.sql("SELECT FROM levels WHERE kind = 'single' AND state = 'done'"),
        "a second level is done",
    )
    assert cluster.outcomes(job_id).keys() == {"succeeded"}
    cluster.kill("fake-0")
    cluster.start_worker("healthy")
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.evaluated_once()


@pytest.mark.fault(28)
@pytest.mark.parametrize("place", ["worker", "reconciler"])
def test_an_advance_that_dies_half_way_is_undone_and_done_again(cluster, place):
    """The level is marked as done, the next one is not there yet: neither is seen by anybody."""
    inside = {"advance.inside": "once:kill"}
    dies = {"worker.before_advance": "once:kill"} if place == "reconciler" else inside
    cluster.start_worker(failpoints=dies)
    cluster.start_reconciler(failpoints=inside if place == "reconciler" else {})
    job_id = cluster.submit()
    cluster.wait_for_mark("once-advance.inside")
    if place == "reconciler":
        cluster.wait_for_exit("reconciler-0")
        assert cluster.sql("SELECT idx, state FROM levels") == [(0, "running")]
        cluster.start_reconciler()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.evaluated_once()


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    "steps", [pytest.param((1, 8), id="two"), pytest.param(range(1, 9), id="all", marks=pytest.mark.slow)]
)
def test_a_reconciler_that_is_killed_in_the_middle_of_its_steps_does_no_harm(cluster, steps):
    """Time and again, each time at another step, with the step's changes made and not committed."""
    cluster.start_worker()
    cluster.child_of("fake-0")
    job_id = cluster.submit()
    for step in steps:
        cluster.start_reconciler(failpoints={"sweep.step": f"nth:{step}:kill"})
        cluster.wait_for_exit("reconciler-0")
    cluster.start_reconciler()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()


@contextmanager
def reconcilers(cluster, count: int) -> Iterator[None]:
    """Reconcilers in threads of their own, each with its own connections."""
    databases = [Database(cluster.settings) for _ in range(count)]
    made = [
        Reconciler(
            cluster.settings,
            database,
            Broker(cluster.app, cluster.valkey.url),
            cluster.folder / f"{number}.alive",
        )
        for number, database in enumerate(databases)
    ]
    threads = [threading.Thread(target=one.run) for one in made]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in made:
            one.stop.set()
        for thread in threads:
            thread.join()
        for database in databases:
            database.close()


@pytest.mark.fault(29)
def test_five_reconcilers_at_once_do_no_harm_even_without_their_lock(cluster, monkeypatch):
    monkeypatch.setattr(models.sweep, "lead", lambda session: True)
    # Workers that die now and then leave something to sweep up.
    cluster.start_worker("fake-0", failpoints={"worker.before_advance": "nth:2:kill"})
    cluster.start_worker("fake-1", on={"2": "once:kill", "4": "once:kill"})
    with reconcilers(cluster, 5):
        jobs = [cluster.submit() for _ in range(3)]
        assert {cluster.wait_until_ended(job_id) for job_id in jobs} == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(30)
def test_a_message_that_was_noted_and_never_sent_is_sent_later(cluster):
    cluster.start_worker()
    cluster.child_of("fake-0")
    job_id = cluster.submit()
    cluster.start_reconciler(failpoints={"reconciler.before_publish": "nth:1:kill"})
    cluster.wait_for_exit("reconciler-0")
    assert cluster.sql("SELECT dispatches, dispatched_at IS NULL, state FROM chunks") == [
        (1, False, "pending")
    ]
    assert cluster.broker.llen(QUEUE) == 0
    cluster.start_reconciler()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.sql("SELECT dispatches FROM chunks WHERE kind = 'dense'") == [2]


@pytest.mark.fault(30)
def test_a_message_that_was_sent_and_is_not_noted_is_sent_twice_and_leads_to_one_claim(make_cluster):
    cluster = make_cluster(redispatch_seconds=600)
    cluster.start_reconciler()
    cluster.start_worker()
    cluster.stop_receiving("fake-0")
    job_id = cluster.submit()
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 1, "a message is there")
    cluster.database.transaction(undispatch)
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 2, "another one is there")
    cluster.kill("fake-0", signal.SIGCONT)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 0, "both are received")
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()
