from __future__ import annotations

from models.control import pause
from models.dispatch import dispatch, oldest_pending_seconds, undispatch
from models.lease import release
from models.workers import drain


def send(bench, **changes):
    settings = bench.settings.model_copy(update=changes)
    return [bell.chunk_id for bell in bench.database.transaction(dispatch, settings)]


def chunks(bench):
    return bench.sql("SELECT id FROM chunks ORDER BY priority DESC, id")


def test_a_few_messages_for_each_worker_are_outstanding_best_first(bench):
    for priority in (5, 5, 9, 5, 5, 5, 5):
        bench.submit(priority=priority)
    slot = bench.slot()
    order = chunks(bench)
    assert send(bench) == order[:3]
    assert send(bench) == []
    # A worker at work claims the next chunk by itself.
    claimed = bench.must_claim(slot, order[0])
    assert send(bench) == []
    bench.slot("cpu-1")
    assert send(bench) == order[3:4]
    bench.database.transaction(release, claimed)
    assert send(bench) == [order[0], *order[4:6]]


def test_without_a_live_worker_nobody_is_called(bench):
    bench.submit()
    assert send(bench) == []
    slot = bench.slot()
    bench.database.transaction(drain, slot.owner)
    assert send(bench) == []
    bench.slot()
    bench.sql("UPDATE workers SET seen_at = now() - interval '1 hour'")
    assert send(bench) == []
    bench.slot()
    assert len(send(bench)) == 1


def test_a_message_that_led_to_nothing_is_sent_again(bench):
    bench.submit()
    bench.slot()
    assert len(send(bench)) == 1
    assert send(bench) == []
    bench.sql("UPDATE chunks SET dispatched_at = dispatched_at - interval '61 seconds'")
    assert len(send(bench)) == 1
    assert bench.sql("SELECT dispatches FROM chunks") == [2]


def test_messages_can_be_forgotten(bench):
    for _ in range(3):
        bench.submit()
    bench.slot()
    sent = send(bench)
    bench.database.transaction(undispatch, sent[1:2])
    assert send(bench) == sent[1:2]
    # The broker has lost everything.
    bench.database.transaction(undispatch)
    assert send(bench) == sent


def test_only_chunks_that_can_be_claimed_get_messages(bench):
    job = bench.submit()
    bench.slot()
    bench.database.transaction(pause, job.id)
    assert send(bench) == []
    later = bench.submit()
    bench.sql("UPDATE chunks SET not_before = now() + interval '1 hour' WHERE job_id = :id", id=later.id)
    assert send(bench) == []


def test_chunks_for_other_devices_do_not_fill_the_window(bench):
    for _ in range(4):
        bench.submit(priority=9)
    bench.sql("UPDATE jobs SET device_class = 'cuda'")
    mine = bench.submit(priority=1)
    bench.slot()
    bells = bench.database.transaction(dispatch, bench.settings)
    assert [bell.device_class for bell in bells] == [None]
    assert bench.sql("SELECT job_id FROM chunks WHERE dispatched_at IS NOT NULL") == [mine.id]
    bench.slot("gpu", device_class="cuda")
    bells = bench.database.transaction(dispatch, bench.settings)
    # The message that anybody may take counts for both kinds.
    assert [bell.device_class for bell in bells] == ["cuda"] * 2


def test_age_of_the_oldest_pending_chunk(bench):
    assert bench.database.transaction(oldest_pending_seconds, bench.settings) == 0.0
    bench.submit()
    bench.sql("UPDATE chunks SET created_at = now() - interval '90 seconds'")
    assert 90 <= bench.database.transaction(oldest_pending_seconds, bench.settings) < 120
    bench.must_claim()
    assert bench.database.transaction(oldest_pending_seconds, bench.settings) == 0.0
