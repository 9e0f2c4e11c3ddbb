from __future__ import annotations

import pytest

from models.errors import NotFound
from models.workers import (
    drain,
    end_quarantine,
    find_worker,
    forget_workers,
    list_workers,
    live_kinds,
    live_workers,
    quarantine,
    seen,
)


def live(bench):
    return [worker.owner for worker in bench.database.transaction(live_workers, 60.0)]


def test_a_worker_is_live_while_it_gives_signs_of_life(bench):
    slot = bench.slot()
    assert live(bench) == ["cpu-0"]
    bench.sql("UPDATE workers SET seen_at = now() - interval '2 minutes'")
    assert live(bench) == []
    assert bench.database.transaction(seen, slot)
    assert live(bench) == ["cpu-0"]


def test_draining_ends_with_the_process(bench):
    slot = bench.slot()
    assert bench.database.transaction(drain, slot.owner)
    assert not bench.database.transaction(seen, slot)
    assert live(bench) == []
    bench.slot(boot_id="next")
    assert live(bench) == ["cpu-0"]
    assert not bench.database.transaction(drain, "no such worker")


def test_quarantine_outlives_the_process(bench):
    slot = bench.slot()
    bench.database.transaction(quarantine, slot.owner, 60.0)
    assert not bench.database.transaction(seen, bench.slot())
    assert live(bench) == []


def test_a_replaced_process_is_told(bench):
    old = bench.slot(boot_id="old")
    new = bench.slot(boot_id="new", pid=2)
    assert not bench.database.transaction(seen, old)
    assert bench.database.transaction(seen, new)
    assert bench.sql("SELECT pid, boot_id FROM workers") == [(2, "new")]


def test_workers_are_shown_with_what_they_are_at(bench):
    job = bench.submit()
    for owner in ("b/cpu-0", "a/cpu-1", "a/cpu-0"):
        bench.slot(owner)
    claimed = bench.must_claim(bench.slot("a/cpu-0"))
    bench.database.transaction(drain, "a/cpu-1")
    bench.database.transaction(quarantine, "b/cpu-0", 60.0)
    page = bench.database.transaction(list_workers, 60.0, limit=2)
    assert [(one.worker.owner, one.live, one.chunk, one.job) for one in page] == [
        ("a/cpu-0", True, claimed.chunk_id, job.id),
        ("a/cpu-1", False, None, None),
    ]
    (last,) = bench.database.transaction(list_workers, 60.0, limit=2, after="a/cpu-1")
    assert (last.worker.owner, last.live) == ("b/cpu-0", False)
    bench.database.transaction(end_quarantine, "b/cpu-0")
    assert bench.database.transaction(find_worker, "b/cpu-0", 60.0).live
    assert bench.database.transaction(live_kinds, 60.0) == {("cpu", "2")}
    with pytest.raises(NotFound, match="no worker 'c/cpu-0'"):
        bench.database.transaction(find_worker, "c/cpu-0", 60.0)


def test_workers_long_gone_are_forgotten_unless_they_hold_a_chunk(bench):
    bench.submit()
    for owner in ("new", "old", "at work"):
        bench.slot(owner)
    bench.must_claim(bench.slot("at work"))
    bench.sql("UPDATE workers SET seen_at = now() - interval '2 days' WHERE owner <> 'new'")
    assert bench.database.transaction(forget_workers, 86400.0) == 1
    assert bench.sql("SELECT owner FROM workers ORDER BY owner") == ["at work", "new"]
