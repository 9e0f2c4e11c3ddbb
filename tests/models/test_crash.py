from __future__ import annotations

import pytest

from models.control import cancel
from models.crash import expire_leases, reclaim
from models.sweep import settle_cancelling
from tests.models.bench import LONG_AGO


def test_a_chunk_of_a_silent_worker_is_free_again(bench):
    bench.submit()
    claimed = bench.must_claim()
    assert bench.database.transaction(expire_leases, bench.without_grace, LONG_AGO) == 0
    bench.lose(claimed.chunk_id)
    assert bench.sql("SELECT state, crash_count, attempt, owner, last_owner FROM chunks") == [
        ("pending", 1, 1, None, "cpu-0")
    ]
    assert bench.sql("SELECT outcome FROM attempts") == ["crashed"]
    assert bench.sql("SELECT payload->>'what' FROM events WHERE kind = 'chunk'") == ["crashed"]


@pytest.mark.parametrize("outage", ["server start", "own reconnect"])
def test_after_an_outage_no_lease_expires_for_one_lease(bench, outage):
    """Otherwise an outage of everybody would look like the death of every worker."""
    bench.submit()
    claimed = bench.must_claim()
    bench.expire(claimed.chunk_id)
    settings, since = bench.without_grace, bench.database.connected_at()
    if outage == "server start":
        settings, since = bench.settings.model_copy(update={"lease_seconds": 1e8}), LONG_AGO
    else:
        settings = bench.settings.model_copy(update={"lease_seconds": 5.0})
        bench.sql("SELECT 1")
    assert bench.database.transaction(expire_leases, settings, since) == 0
    assert bench.sql("SELECT state FROM chunks") == ["running"]


def test_a_new_process_takes_back_what_the_old_one_left(bench):
    bench.submit()
    slot = bench.slot()
    bench.must_claim(slot)
    assert bench.database.transaction(reclaim, bench.settings, "somebody else") == 0
    assert bench.database.transaction(reclaim, bench.settings, slot.owner) == 1
    assert bench.sql("SELECT state, crash_count FROM chunks") == [("pending", 1)]
    assert bench.database.transaction(reclaim, bench.settings, slot.owner) == 0


def test_a_chunk_of_a_cancelled_job_is_closed_when_its_worker_dies(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.database.transaction(cancel, job.id)
    bench.lose(claimed.chunk_id)
    assert bench.database.transaction(settle_cancelling, bench.settings) == 1
    assert bench.sql("SELECT state FROM chunks") == ["cancelled"]


def test_a_worker_that_crashes_on_everything_is_set_aside_and_the_chunks_are_not_charged(bench):
    settings = bench.settings.model_copy(update={"quarantine_crashes": 3})
    for _ in range(3):
        bench.submit()
    slot = bench.slot("bad")
    for _ in range(3):
        # Hints make it meet another chunk each time.
        fresh = bench.sql("SELECT id FROM chunks WHERE crash_count = 0 ORDER BY id LIMIT 1")[0]
        bench.must_claim(slot, fresh)
        assert bench.database.transaction(reclaim, settings, slot.owner) == 1
    assert bench.sql("SELECT quarantined_until > now(), crashes_in_a_row FROM workers") == [(True, 0)]
    assert bench.sql("SELECT DISTINCT crash_count, attempt, last_owner FROM chunks") == [(0, 0, None)]
    assert bench.claim(slot) is None
    assert bench.claim(bench.slot("good")) is not None


def test_one_bad_chunk_does_not_set_its_workers_aside(bench):
    settings = bench.settings.model_copy(update={"quarantine_crashes": 2, "max_crashes": 9})
    bench.submit()
    slot = bench.slot()
    for _ in range(4):
        bench.sql("UPDATE chunks SET not_before = NULL, crash_count = 0, attempt = 0")
        bench.must_claim(slot)
        bench.database.transaction(reclaim, settings, slot.owner)
    assert bench.sql("SELECT quarantined_until, crashes_in_a_row FROM workers") == [(None, 1)]
