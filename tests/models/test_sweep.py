from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

import models.sweep
from models.advance import Advance
from models.control import cancel, pause
from models.database import Database
from models.finish import finish
from models.levels import Level
from models.sweep import cut_over_time, lead, sweep
from skipmap.errors import InvalidInput
from tests.models.bench import LONG_AGO, make_spec


def test_one_sweep_does_all_steps(bench):
    lost, done, unwanted, resting = (bench.submit().id for _ in range(4))
    slots = [bench.slot(f"w{n}") for n in range(2)]
    chunks = dict(bench.sql("SELECT job_id, id FROM chunks"))
    bench.expire(bench.must_claim(slots[0], chunks[lost]).chunk_id)
    claimed = bench.must_claim(slots[1], chunks[done])
    bench.store(claimed)
    bench.database.transaction(finish, claimed)
    bench.database.transaction(cancel, unwanted)
    bench.database.transaction(pause, resting)
    found = sweep(
        bench.database, bench.without_grace.model_copy(update={"redispatch_seconds": 60.0}), LONG_AGO
    )
    assert (found.expired, found.settled, found.advanced) == (1, 2, {claimed.level_id: Advance.NEXT})
    states = [bench.state(job) for job in (lost, done, unwanted, resting)]
    assert states == ["running", "running", "cancelled", "paused"]


def test_sweeps_drive_a_job_whose_workers_never_advance(bench):
    job = bench.submit()
    slot = bench.slot()
    for _ in range(50):
        found = sweep(bench.database, bench.settings, LONG_AGO)
        for bell in found.doorbells:
            claimed = bench.claim(slot, bell.chunk_id)
            assert claimed is not None
            bench.store(claimed)
            bench.database.transaction(finish, claimed)
        if bench.state(job.id) == "succeeded":
            return
    raise AssertionError("the job did not end")


def test_only_one_leads(bench):
    def work(session):
        return lead(session), bench.database.transaction(lead)

    assert bench.database.transaction(work) == (True, False)
    assert bench.database.transaction(lead)


def test_five_sweeps_at_once_do_everything_once(bench, monkeypatch):
    """Leading only saves work: without it the result is the same."""
    monkeypatch.setattr(models.sweep, "lead", lambda session: True)
    for _ in range(5):
        bench.submit()
    database = Database(bench.settings.model_copy(update={"pool_size": 5}))
    start = threading.Barrier(5)

    def tick(_):
        start.wait()
        return sweep(database, bench.without_grace.model_copy(update={"redispatch_seconds": 60.0}), LONG_AGO)

    slots = [bench.slot(f"w{n}") for n in range(5)]
    with ThreadPoolExecutor(5) as pool:
        claims = [bench.must_claim(slot) for slot in slots]
        for claimed in claims[:2]:
            bench.expire(claimed.chunk_id)
        for claimed in claims[2:]:
            bench.store(claimed)
            bench.database.transaction(finish, claimed)
        found = list(pool.map(tick, range(5)))
    database.close()
    assert sum(one.expired for one in found) == 2
    advanced = [step for one in found for step in one.advanced.values()]
    assert advanced.count(Advance.NEXT) == 3
    bells = [bell.chunk_id for one in found for bell in one.doorbells]
    assert len(bells) == len(set(bells))


def test_a_level_that_cannot_be_advanced_does_not_hold_up_the_others(bench, monkeypatch, caplog):
    levels = []
    for slot in (bench.slot("a"), bench.slot("b")):
        bench.submit()
        claimed = bench.must_claim(slot)
        bench.store(claimed)
        bench.database.transaction(finish, claimed)
        levels.append(claimed.level_id)
    plain = models.sweep.try_advance

    def fails(database, level_id, **options):
        if level_id == levels[0]:
            raise DataError("INSERT", {}, Exception("bad row"))
        return plain(database, level_id, **options)

    monkeypatch.setattr(models.sweep, "try_advance", fails)
    assert models.sweep.advance_orphans(bench.database) == {levels[1]: Advance.NEXT}
    assert levels[0] in caplog.text


def test_a_level_that_another_process_is_advancing_is_left_at_once(bench):
    bench.submit()
    claimed = bench.must_claim()
    bench.store(claimed)
    bench.database.transaction(finish, claimed)
    other = bench.submit()
    with Session(bench.database.engine) as session, session.begin():
        session.execute(select(Level).where(Level.id == claimed.level_id).with_for_update(key_share=True))
        began = time.monotonic()
        done = sweep(bench.database, bench.settings, LONG_AGO)
        assert time.monotonic() - began < bench.settings.lock_timeout_seconds
    assert done.advanced == {claimed.level_id: Advance.LEFT}
    chunk = bench.sql("SELECT id FROM chunks WHERE job_id = :id", id=other.id)[0]
    assert [doorbell.chunk_id for doorbell in done.doorbells] == [chunk]


@pytest.mark.parametrize("step", ["expire_leases", "stirring_levels", "refresh_level", "advance_orphans"])
def test_a_step_that_fails_keeps_no_other_from_its_turn(bench, monkeypatch, caplog, step):
    def fails(*_):
        raise InvalidInput("spec", "from an older version")

    fails.__name__ = step
    monkeypatch.setattr(models.sweep, step, fails)
    slot = bench.slot()
    bench.submit()
    bench.store(bench.must_claim(slot))
    bench.submit()
    bench.slot("cpu-1")
    assert len(sweep(bench.database, bench.settings, LONG_AGO).doorbells) == 1
    assert f"{step} failed" in caplog.text


def test_a_job_out_of_time_is_cut_and_ends(bench):
    bench.seconds_per_group = 20.0
    job = bench.submit(make_spec(max_seconds=50.0))
    bench.work()
    bench.work()
    assert bench.database.transaction(cut_over_time) == 0
    # 20 + 20 seconds so far: the next group passes the limit.
    claimed = bench.must_claim()
    assert bench.store_group(claimed, claimed.pending[0]).stop == "time"
    bench.database.transaction(finish, claimed) if len(claimed.pending) == 1 else None
    sweep(bench.database, bench.settings, LONG_AGO)
    bench.work_off()
    outcome = bench.job(job.id).outcome
    assert bench.state(job.id) == "succeeded"
    assert "max_seconds" in outcome["stopped"]
    assert outcome["exhaustive"] is False
