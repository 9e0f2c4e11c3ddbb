from __future__ import annotations

from models.workers import drain, live_workers, quarantine, seen


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
