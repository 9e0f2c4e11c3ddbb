from __future__ import annotations

import pytest
from sqlalchemy import event

from models.control import pause, set_priority
from models.events import emit
from models.job_events import Standing, at_work, last_events, standing_of
from skipmap.errors import NotFound


def told(bench, job_id, limit=20):
    return [(event.kind, event.payload) for event in bench.database.read(last_events, job_id, limit)]


def test_the_last_events_come_first_and_progress_is_left_out(bench):
    job, other = bench.submit(), bench.submit()
    bench.database.transaction(emit, job.id, "progress", idx=0, kind="dense", done=0, size=1)
    bench.database.transaction(set_priority, job.id, 7)
    bench.database.transaction(set_priority, other.id, 2)
    bench.database.transaction(pause, job.id)
    assert told(bench, job.id) == [
        ("job", {"state": "pausing"}),
        ("job", {"priority": 7}),
        ("job", {"state": "running"}),
    ]
    assert told(bench, job.id, 1) == [("job", {"state": "pausing"})]


def test_a_job_stands_where_its_last_level_does(bench):
    job, other = bench.submit(), bench.submit()
    assert bench.database.read(standing_of, job.id) == Standing("running", 0, "running", 0, 1)
    bench.work_off()
    found = bench.database.read(standing_of, job.id)
    levels = bench.sql("SELECT count(*) FROM levels WHERE job_id = :id", id=job.id)
    assert (found.state, found.level_state, found.idx) == ("succeeded", "done", levels[0] - 1)
    assert bench.database.read(standing_of, other.id).state == "succeeded"
    with pytest.raises(NotFound, match="no job 'none'"):
        bench.database.read(standing_of, "none")


def test_where_a_job_stands_takes_one_statement_that_reads_no_spec(bench):
    job, statements = bench.submit(), []

    def look(session):
        event.listen(session.get_bind(), "before_cursor_execute", lambda *given: statements.append(given[2]))
        return standing_of(session, job.id)

    bench.database.read(look)
    (statement,) = [text for text in statements if "levels" in text]
    assert len(statements) == 1
    assert not any(column in statement for column in ("spec", "facts", "outcome", "plan"))


def test_workers_on_a_job_are_those_that_hold_its_chunks(bench):
    job = bench.submit()
    assert bench.database.read(at_work, job.id) == []
    claimed = bench.must_claim(bench.slot("gpu-0"))
    (found,) = bench.database.read(at_work, job.id)
    assert (found.owner, found.kind, found.groups, found.attempt) == ("gpu-0", "dense", 1, 1)
    assert found.progress_at is not None
    assert found.claimed_at <= found.progress_at
    bench.store(claimed)
    bench.finish(claimed)
    assert bench.database.read(at_work, job.id) == []


def test_another_jobs_workers_are_not_this_ones(bench):
    bench.submit()
    bench.must_claim(bench.slot("gpu-0"))
    other = bench.submit()
    assert bench.database.read(at_work, other.id) == []
