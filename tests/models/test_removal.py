from __future__ import annotations

import pytest

from models import removal
from models.advance import try_advance
from models.control import delete_job, retry
from models.errors import Conflict
from models.lease import fail
from models.poison import dead_letter
from models.removal import empty_job
from skipmap.errors import NotFound


@pytest.fixture
def small_steps(monkeypatch):
    """A job of a few rows takes as many transactions as a large one."""
    monkeypatch.setattr(removal, "_ROWS_AT_A_TIME", dict.fromkeys(removal._ROWS_AT_A_TIME, 2))


def left(bench):
    return {name: len(rows) for name, rows in bench.dump().items() if rows}


def test_everything_goes_in_short_steps_and_the_job_last(bench, small_steps):
    job, other = bench.submit(), bench.submit()
    bench.work_off()
    before = left(bench)
    assert before["evaluations"] > 10
    assert empty_job(bench.database, job.id) is True
    halved = left(bench)
    for name in ("evaluations", "findings", "chunks", "attempts", "events"):
        assert bench.sql(f"SELECT DISTINCT job_id FROM {name}") == [other.id], name
    assert halved["jobs"] == 2
    bench.database.transaction(delete_job, job.id)
    assert bench.sql("SELECT id FROM jobs") == [other.id]
    assert bench.state(other.id) == "succeeded"


def test_a_removal_that_breaks_off_goes_on_later(bench, small_steps):
    job = bench.submit()
    bench.work_off()
    rows = [sum(left(bench).values())]
    while not empty_job(bench.database, job.id, seconds=0.0):
        rows.append(sum(left(bench).values()))
        assert bench.state(job.id) == "cancelled"
    # The first call tells, too, that the job is no longer whole.
    assert rows[0] + 1 > rows[1]
    assert rows[1:] == sorted(set(rows[1:]), reverse=True)
    bench.database.transaction(delete_job, job.id)
    assert left(bench).keys() == {"evaluation_cache"}


def test_nobody_retries_a_job_whose_rows_are_going(bench, small_steps):
    job = bench.submit()
    claimed = bench.reach("single")
    bench.database.transaction(fail, bench.settings, claimed, "boom", permanent=True)
    bench.database.transaction(dead_letter, bench.settings)
    try_advance(bench.database, claimed.level_id)
    assert bench.state(job.id) == "failed"
    assert empty_job(bench.database, job.id, seconds=0.0) is False
    with pytest.raises(Conflict, match="is cancelled"):
        bench.database.transaction(retry, job.id)
    empty_job(bench.database, job.id)
    bench.database.transaction(delete_job, job.id)


def test_only_jobs_that_have_ended_are_emptied(bench):
    job = bench.submit()
    before = bench.dump()
    with pytest.raises(Conflict, match="is running; cancel it first"):
        empty_job(bench.database, job.id)
    with pytest.raises(NotFound):
        empty_job(bench.database, "no such job")
    assert bench.dump() == before
