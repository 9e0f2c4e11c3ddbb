from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.advance import Advance, try_advance
from models.control import cancel, delete_job, pause, resume, retry, set_priority
from models.errors import Conflict, LostLease
from models.finish import finish
from models.lease import fail, stop
from models.poison import dead_letter
from models.sweep import settle_cancelling, settle_pausing
from skipmap.errors import NotFound


def running(bench):
    return bench.submit().id


def busy(bench):
    """Running, with a chunk at work."""
    job = bench.submit().id
    bench.must_claim()
    return job


def pausing(bench):
    job = busy(bench)
    bench.database.transaction(pause, job)
    return job


def paused(bench):
    job = running(bench)
    bench.database.transaction(pause, job)
    bench.database.transaction(settle_pausing)
    return job


def cancelling(bench):
    job = busy(bench)
    bench.database.transaction(cancel, job)
    return job


def cancelled(bench):
    job = running(bench)
    bench.database.transaction(cancel, job)
    bench.database.transaction(settle_cancelling, bench.settings)
    return job


def succeeded(bench):
    job = running(bench)
    bench.work_off()
    return job


def failed(bench):
    job = running(bench)
    claimed = bench.must_claim()
    bench.database.transaction(fail, bench.settings, claimed, "boom", permanent=True)
    bench.database.transaction(dead_letter, bench.settings)
    try_advance(bench.database, claimed.level_id)
    return job


STATES = {
    "running": running,
    "busy": busy,
    "pausing": pausing,
    "paused": paused,
    "cancelling": cancelling,
    "cancelled": cancelled,
    "succeeded": succeeded,
    "failed": failed,
}
# What each action makes of each state: the new state, "same" where it is so already, None where it is refused.
TABLE = """
                cancel      pause    resume   retry    delete
    running     cancelling  pausing  same     -        -
    busy        cancelling  pausing  same     -        -
    pausing     cancelling  same     running  -        -
    paused      cancelling  same     running  -        -
    cancelling  same        -        -        -        -
    cancelled   same        -        -        -        gone
    succeeded   -           -        -        -        gone
    failed      -           -        -        running  gone
"""
ACTIONS = {"cancel": cancel, "pause": pause, "resume": resume, "retry": retry, "delete": delete_job}
_HEAD, *_ROWS = [line.split() for line in TABLE.strip().splitlines()]
CASES = [(row[0], action, becomes) for row in _ROWS for action, becomes in zip(_HEAD, row[1:], strict=True)]


@pytest.mark.parametrize(("state", "action", "becomes"), CASES)
def test_every_change_of_a_job(bench, state, action, becomes):
    job = STATES[state](bench)
    before = bench.dump()
    was = bench.state(job)
    assert was == ("running" if state == "busy" else state)
    if becomes == "-":
        with pytest.raises(Conflict) as caught:
            bench.database.transaction(ACTIONS[action], job)
        assert caught.value.state == was
        assert bench.dump() == before
        return
    answer = bench.database.transaction(ACTIONS[action], job)
    if becomes == "gone":
        assert bench.sql("SELECT count(*) FROM jobs") == [0]
    elif becomes == "same":
        assert answer.state == was
        assert bench.dump() == before
    else:
        assert answer.state == bench.state(job) == becomes


@pytest.mark.parametrize("action", ACTIONS)
def test_an_unknown_job_is_not_found(bench, action):
    with pytest.raises(NotFound):
        bench.database.transaction(ACTIONS[action], "no such job")


def test_cancel_closes_what_is_pending_and_waits_for_what_runs(bench):
    bench.seconds_per_group = 60.0
    job = bench.submit()
    bench.work()
    claimed = bench.must_claim()
    bench.database.transaction(cancel, job.id)
    look = "SELECT state FROM chunks WHERE kind = 'single' ORDER BY seq"
    assert bench.sql(look) == ["running", "cancelled", "cancelled"]
    assert bench.database.transaction(settle_cancelling, bench.settings) == 0
    bench.database.transaction(stop, claimed, "cancel")
    assert bench.database.transaction(settle_cancelling, bench.settings) == 1
    assert bench.state(job.id) == "cancelled"
    assert bench.sql("SELECT state FROM levels ORDER BY idx") == ["done", "cancelled"]


def test_after_the_grace_a_hung_worker_is_left_behind(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.database.transaction(cancel, job.id)
    hasty = bench.settings.model_copy(update={"cancel_grace_seconds": 0.0})
    assert bench.database.transaction(settle_cancelling, hasty) == 1
    assert bench.state(job.id) == "cancelled"
    before = bench.dump()
    with pytest.raises(LostLease):
        bench.store_group(claimed, ("dense",))
    assert bench.dump() == before


@pytest.mark.parametrize(
    "rounds", [pytest.param(20, id="20"), pytest.param(200, id="200", marks=pytest.mark.slow)]
)
def test_cancel_and_finish_at_once(bench, rounds):
    """Whichever commits first wins; what was stored before stays, and nothing follows."""
    start = threading.Barrier(2)

    def close(claimed):
        start.wait()
        bench.database.transaction(finish, claimed)
        return try_advance(bench.database, claimed.level_id)

    def end(job_id):
        start.wait()
        bench.database.transaction(cancel, job_id)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            job = bench.submit()
            claimed = bench.must_claim()
            bench.store(claimed)
            closing, ending = pool.submit(close, claimed), pool.submit(end, job.id)
            assert closing.result() in (Advance.NEXT, Advance.LEFT)
            ending.result()
            bench.database.transaction(settle_cancelling, bench.settings)
            assert bench.state(job.id) == "cancelled"
            assert bench.claim() is None
            assert bench.sql("SELECT count(*) FROM evaluations WHERE job_id = :id", id=job.id)[0] >= 1


def test_a_paused_job_rests_until_it_is_resumed(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.database.transaction(pause, job.id)
    assert bench.database.transaction(settle_pausing) == 0
    bench.database.transaction(stop, claimed, "pause")
    assert bench.database.transaction(settle_pausing) == 1
    bench.sql("UPDATE chunks SET dispatched_at = now()")
    assert bench.claim() is None
    bench.database.transaction(resume, job.id)
    assert bench.sql("SELECT attempt, dispatched_at FROM chunks") == [(0, None)]
    bench.work_off()
    assert bench.state(job.id) == "succeeded"


def test_retry_keeps_what_is_stored_and_goes_on(bench):
    job = bench.submit()
    claimed = bench.reach("single")
    bench.store_group(claimed, ("0", "1"))
    bench.database.transaction(fail, bench.settings, claimed, "boom", permanent=True)
    bench.database.transaction(dead_letter, bench.settings)
    assert try_advance(bench.database, claimed.level_id) is Advance.FAILED
    assert bench.job(job.id).error == "boom"
    bench.database.transaction(retry, job.id)
    again = bench.must_claim()
    assert (again.chunk_id, again.attempt, again.pending) == (claimed.chunk_id, 1, (("2", "3"), ("4",)))
    assert bench.job(job.id).error is None
    bench.store(again)
    bench.finish(again)
    bench.work_off()
    assert bench.state(job.id) == "succeeded"


def test_priority_changes_which_job_comes_first(bench):
    bench.submit()
    second = bench.submit()
    bench.database.transaction(set_priority, second.id, 9)
    assert bench.must_claim().job_id == second.id
    bench.database.transaction(cancel, second.id)
    bench.database.transaction(
        settle_cancelling, bench.settings.model_copy(update={"cancel_grace_seconds": 0.0})
    )
    with pytest.raises(Conflict):
        bench.database.transaction(set_priority, second.id, 1)


def test_a_deleted_job_takes_its_rows_with_it(bench):
    job = succeeded(bench)
    cached = bench.sql("SELECT count(*) FROM evaluation_cache")
    bench.database.transaction(delete_job, job)
    left = {name: rows for name, rows in bench.dump().items() if rows}
    assert list(left) == ["evaluation_cache"]
    assert bench.sql("SELECT count(*) FROM evaluation_cache") == cached
