from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy import text

from models.claim import claim
from models.control import cancel, pause
from models.errors import OwnerBusy
from models.lease import fail, pin_target
from models.workers import drain, end_quarantine, quarantine


def chunk_ids(bench):
    return bench.sql("SELECT id FROM chunks ORDER BY id")


def test_a_claim_owns_the_chunk_for_a_lease(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    assert (claimed.kind, claimed.depth, claimed.groups, claimed.pending) == (
        "dense",
        0,
        (("dense",),),
        (("dense",),),
    )
    assert (claimed.job_id, claimed.attempt, claimed.facts) == (job.id, 1, None)
    row = bench.sql(
        "SELECT state, owner, claim_token, attempt, round(extract(epoch FROM lease_expires_at - claimed_at)) "
        "FROM chunks"
    )
    assert row == [("running", "cpu-0", claimed.token, 1, bench.settings.lease_seconds)]


def test_the_hint_comes_first_and_a_useless_one_falls_back(bench):
    for _ in range(3):
        bench.submit()
    first, second, third = chunk_ids(bench)
    assert bench.must_claim(bench.slot("a"), second).chunk_id == second
    # Claimed by now, and one that does not exist.
    assert bench.must_claim(bench.slot("b"), second).chunk_id == first
    assert bench.must_claim(bench.slot("c"), "no such chunk").chunk_id == third
    assert bench.claim(bench.slot("d"), first) is None


def test_the_highest_priority_comes_first_then_the_oldest(bench):
    jobs = [bench.submit(priority=priority).id for priority in (5, 9, 5, 0)]
    order = [bench.must_claim(bench.slot(f"w{n}")).job_id for n in range(4)]
    assert order == [jobs[1], jobs[0], jobs[2], jobs[3]]


def test_two_workers_never_get_one_chunk(bench):
    """Claims at the same moment: every chunk goes to one worker."""
    for _ in range(6):
        bench.submit()
    slots = [bench.slot(f"w{n}") for n in range(8)]
    start = threading.Barrier(8)

    def take(slot):
        start.wait()
        return bench.claim(slot)

    with ThreadPoolExecutor(8) as pool:
        claims = [one for one in pool.map(take, slots) if one is not None]
    assert len(claims) == len({one.chunk_id for one in claims}) == 6


def test_a_chunk_that_is_being_claimed_is_passed_over(bench):
    """The second claimer does not wait for the first one's transaction."""
    bench.submit()
    bench.submit()
    one, two = chunk_ids(bench)
    slot = bench.slot("b")

    def first(session):
        taken = claim(session, bench.settings, bench.slot("a"), uuid4(), one)
        session.execute(text("SET LOCAL statement_timeout = 0"))
        other = bench.claim(slot, one)
        return taken, other

    taken, other = bench.database.transaction(first)
    assert (taken.chunk_id, other.chunk_id) == (one, two)


def test_a_worker_has_one_chunk_at_a_time(bench):
    bench.submit()
    bench.submit()
    slot = bench.slot()
    assert bench.claim(slot) is not None
    assert bench.claim(slot) is None


def test_two_processes_of_one_slot_are_told(bench):
    """Both look before either has committed; the index lets one through."""
    bench.submit()
    bench.submit()
    slot = bench.slot()
    one, two = chunk_ids(bench)
    looked = threading.Barrier(2)
    results = []

    def take(hint):
        def work(session):
            session.execute(text("SELECT 1"))
            looked.wait()
            return claim(session, bench.settings, slot, uuid4(), hint)

        try:
            results.append(bench.database.transaction(work))
        except OwnerBusy as error:
            results.append(error)

    threads = [threading.Thread(target=take, args=(hint,)) for hint in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claims = [one for one in results if one is not None and not isinstance(one, OwnerBusy)]
    assert len(results) == 2
    assert len(claims) == 1


def test_a_repeated_call_gives_the_same_chunk(bench):
    """The first commit may have gone through unnoticed."""
    bench.submit()
    bench.submit()
    slot, token = bench.slot(), uuid4()
    first = bench.database.transaction(claim, bench.settings, slot, token)
    assert bench.database.transaction(claim, bench.settings, slot, token) == first


def test_a_draining_worker_gets_nothing_until_it_starts_again(bench):
    bench.submit()
    slot = bench.slot()
    bench.database.transaction(drain, slot.owner)
    assert bench.claim(slot) is None
    assert bench.claim(bench.slot()) is not None


def test_a_worker_in_quarantine_gets_nothing(bench):
    bench.submit()
    slot = bench.slot()
    bench.database.transaction(quarantine, slot.owner, 60.0)
    assert bench.claim(slot) is None
    # A new process does not end it; a check of the device does.
    assert bench.claim(bench.slot()) is None
    bench.database.transaction(end_quarantine, slot.owner)
    assert bench.claim(slot) is not None


def test_a_replaced_process_gets_nothing(bench):
    bench.submit()
    old = bench.slot(boot_id="old")
    new = bench.slot(boot_id="new")
    assert bench.claim(old) is None
    assert bench.claim(new) is not None


def test_an_unknown_worker_gets_nothing(bench):
    bench.submit()
    slot = bench.slot()
    bench.sql("DELETE FROM workers")
    assert bench.claim(slot) is None


def test_a_job_stays_with_its_device_class_and_engine(bench):
    bench.submit()
    slot = bench.slot()
    bench.work(slot)
    assert bench.claim(bench.slot("gpu", device_class="cuda")) is None
    assert bench.claim(bench.slot("newer", engine="3")) is None
    assert bench.claim(slot) is not None


@pytest.mark.parametrize("change", [pause, cancel])
def test_chunks_of_a_job_that_does_not_run_are_left_alone(bench, change):
    job = bench.submit()
    chunk = chunk_ids(bench)[0]
    bench.database.transaction(change, job.id)
    assert bench.claim(hint=chunk) is None


@pytest.mark.parametrize(
    "change",
    [
        "not_before = clock_timestamp() + interval '1 hour'",
        "crash_count = 3, attempt = 3",
        "error_count = 3, attempt = 3",
        "permanent = true",
    ],
)
def test_a_chunk_that_must_wait_or_has_failed_too_often_is_left_alone(bench, change):
    bench.submit()
    bench.sql(f"UPDATE chunks SET {change}")
    assert bench.claim() is None


def test_only_groups_that_are_not_stored_are_pending(bench):
    bench.submit()
    bench.work()
    claimed = bench.must_claim()
    assert claimed.groups == (("0", "1"), ("2", "3"), ("4",))
    bench.store_group(claimed, ("2", "3"))
    from models.lease import release

    bench.database.transaction(release, claimed)
    again = bench.must_claim()
    assert again.groups == claimed.groups
    assert again.pending == (("0", "1"), ("4",))


@pytest.mark.parametrize("how", ["error", "crash"])
def test_whoever_failed_on_a_chunk_leaves_it_to_others(bench, how):
    bench.submit()
    bad, good = bench.slot("bad"), bench.slot("good")
    claimed = bench.must_claim(bad)
    if how == "error":
        bench.database.transaction(fail, bench.settings, claimed, "no such device")
    else:
        bench.lose(claimed.chunk_id)
    bench.sql("UPDATE chunks SET not_before = NULL")
    assert bench.claim(bad) is None
    assert bench.must_claim(good).chunk_id == claimed.chunk_id


@pytest.mark.parametrize("gone", ["draining", "silent", "other engine"])
def test_with_nobody_else_to_try_it_tries_again(bench, gone):
    bench.submit()
    alone = bench.slot("alone")
    other = bench.slot("other", engine="3" if gone == "other engine" else bench.facts.engine)
    claimed = bench.must_claim(alone)
    bench.database.transaction(pin_target, claimed, bench.facts)
    bench.database.transaction(fail, bench.settings, claimed, "no such device")
    bench.sql("UPDATE chunks SET not_before = NULL")
    if gone == "draining":
        bench.database.transaction(drain, other.owner)
    elif gone == "silent":
        bench.sql("UPDATE workers SET seen_at = seen_at - interval '1 hour' WHERE owner = 'other'")
    assert bench.must_claim(alone).chunk_id == claimed.chunk_id
