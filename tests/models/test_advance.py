from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models import advance as module
from models.advance import Advance, advance, try_advance
from models.control import cancel, pause, resume
from models.database import Database
from models.finish import finish
from models.sweep import advance_orphans
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE
from tests.models.bench import make_facts, make_spec


@pytest.fixture
def four(bench):
    """Claims of the four chunks of a level, each stored and ready to be finished."""
    bench.facts = make_facts(num_layers=8)
    bench.seconds_per_group = 60.0
    slots = [bench.slot(f"w{n}") for n in range(4)]

    def make():
        # The cache must not shorten the way of later jobs.
        bench.facts = make_facts(num_layers=8)
        bench.submit(make_spec(max_depth=1))
        bench.work(slots[0])
        claims = [bench.must_claim(slot) for slot in slots]
        for claimed in claims:
            bench.store(claimed)
        return claims

    return make


@pytest.mark.parametrize(
    "rounds", [pytest.param(25, id="25"), pytest.param(100, id="100", marks=pytest.mark.slow)]
)
def test_finishers_at_once_advance_exactly_once(bench, four, rounds):
    start = threading.Barrier(4)
    database = Database(bench.settings.model_copy(update={"pool_size": 4}))

    def close(claimed):
        start.wait()
        database.transaction(finish, claimed)
        return try_advance(database, claimed.level_id)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(rounds):
            claims = four()
            answers = list(pool.map(close, claims))
            assert answers.count(Advance.NEXT) == 1, answers
            job_id = claims[0].job_id
            levels = bench.sql("SELECT kind, state FROM levels WHERE job_id = :id ORDER BY idx", id=job_id)
            assert levels == [("dense", "done"), ("single", "done"), ("cost", "running")]
            bench.database.transaction(cancel, job_id)
    database.close()


def test_one_who_comes_late_waits_and_finds_the_level_done(bench, four, monkeypatch):
    """Two see all chunks closed; the second gets the level's lock only after the first one's commit."""
    claims = four()
    for claimed in claims:
        bench.database.transaction(finish, claimed)
    inside, go = threading.Event(), threading.Event()
    plain = module.next_level
    calls = []

    def slow(stored):
        calls.append(threading.get_ident())
        inside.set()
        go.wait(10)
        return plain(stored)

    monkeypatch.setattr(module, "next_level", slow)
    level = claims[0].level_id
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(try_advance, bench.database, level)
        inside.wait(10)
        second = pool.submit(try_advance, bench.database, level)
        deadline = threading.Event()
        while not bench.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )[0]:
            assert not deadline.wait(0.01)
            assert not second.done()
        go.set()
        assert (first.result(), second.result()) == (Advance.NEXT, Advance.LEFT)
    assert len(calls) == 1


def test_a_level_with_an_open_chunk_is_left_alone(bench, four):
    claims = four()
    for claimed in claims[:3]:
        bench.database.transaction(finish, claimed)
    before = bench.dump()
    assert try_advance(bench.database, claims[0].level_id) is Advance.OPEN
    # Also when the look before the lock was passed.
    assert bench.database.transaction(advance, claims[0].level_id, 60) is Advance.OPEN
    assert bench.dump() == before


def test_a_level_that_is_done_or_unknown_is_left_alone(bench):
    bench.submit()
    claimed = bench.must_claim()
    bench.store(claimed)
    bench.finish(claimed)
    before = bench.dump()
    assert try_advance(bench.database, claimed.level_id) is Advance.LEFT
    assert try_advance(bench.database, "no such level") is Advance.LEFT
    assert bench.dump() == before


def test_when_the_finisher_dies_the_sweep_advances(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.store(claimed)
    bench.database.transaction(finish, claimed)
    assert advance_orphans(bench.database) == {claimed.level_id: Advance.NEXT}
    assert advance_orphans(bench.database) == {}
    bench.work_off()
    assert bench.state(job.id) == "succeeded"


def test_an_advance_that_dies_half_way_leaves_nothing(bench, monkeypatch):
    bench.submit()
    claimed = bench.must_claim()
    bench.store(claimed)
    bench.database.transaction(finish, claimed)
    before = bench.dump()
    plain = module.open_level

    def die(*args):
        plain(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "open_level", die)
    with pytest.raises(KeyboardInterrupt):
        try_advance(bench.database, claimed.level_id)
    assert bench.dump() == before
    monkeypatch.undo()
    assert try_advance(bench.database, claimed.level_id) is Advance.NEXT


def test_a_paused_job_advances_when_it_is_resumed(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.store(claimed)
    bench.database.transaction(pause, job.id)
    assert bench.finish(claimed) is Advance.LEFT
    assert advance_orphans(bench.database) == {}
    bench.database.transaction(resume, job.id)
    assert advance_orphans(bench.database) == {claimed.level_id: Advance.NEXT}


def test_a_failed_chunk_fails_level_and_job(bench, four):
    claims = four()
    for claimed in claims[1:]:
        bench.database.transaction(finish, claimed)
    bench.sql(
        "UPDATE chunks SET state = 'failed', finished_at = now(), last_error = 'boom', crash_count = 1, owner = NULL, "
        "claim_token = NULL, claimed_at = NULL, lease_expires_at = NULL WHERE id = :id",
        id=claims[0].chunk_id,
    )
    assert try_advance(bench.database, claims[0].level_id) is Advance.FAILED
    job = bench.job(claims[0].job_id)
    assert (job.state, job.error) == ("failed", "boom")


def test_a_spec_that_does_not_fit_the_target_fails_the_job(bench):
    job = bench.submit(make_spec(max_evaluations=3))
    assert bench.work() is Advance.FAILED
    assert bench.state(job.id) == "failed"
    assert "search.max_evaluations" in bench.job(job.id).error


def test_a_dense_run_without_steps_fails_the_job(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.store(claimed)
    bench.sql("UPDATE evaluations SET steps = 0")
    assert bench.finish(claimed) is Advance.FAILED
    assert "max_new_tokens" in bench.job(job.id).error


def test_without_a_signal_only_the_result_follows(bench):
    bench.table = lambda skip: Score(2.0, 0.1)
    job = bench.submit()
    assert bench.work_off() is Advance.ENDED
    assert bench.sql("SELECT kind FROM levels ORDER BY idx") == ["dense", "result"]
    assert "no signal" in bench.job(job.id).outcome["stopped"]


def test_nothing_feasible_leaves_nothing_to_check(bench):
    bench.table = lambda skip: Score(2.0, 0.8) if skip == DENSE else Score(1.0, 0.0)
    bench.submit()
    assert bench.work_off() is Advance.ENDED
    assert bench.sql("SELECT kind FROM levels ORDER BY idx") == ["dense", "single", "cost", "result"]


def test_the_outcome_of_the_search_is_noted_when_it_ends(bench):
    job = bench.submit()
    bench.reach("cost")
    outcome = bench.job(job.id).outcome
    assert outcome["exhaustive"] is False
    # All are equal, so the pool keeps the ends.
    assert (outcome["pool"], outcome["pool_cut"], outcome["feasible"]) == ([0, 1, 2, 4], [3], 11)
