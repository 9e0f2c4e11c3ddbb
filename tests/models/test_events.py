from __future__ import annotations

import threading

from sqlalchemy import text

from models.events import emit, tail
from models.progress import refresh_level, stirring_levels


def seqs(bench, seen, limit=500):
    return [(event.job_id, event.seq) for event in bench.database.transaction(tail, seen, limit)]


def test_tailing_starts_after_what_was_seen(bench):
    one, two = bench.submit().id, bench.submit().id
    for _ in range(3):
        bench.database.transaction(emit, one, "progress", done=1)
    assert seqs(bench, {one: 0, two: 0}) == [*((one, n) for n in (1, 2, 3, 4)), (two, 1)]
    assert seqs(bench, {one: 2, two: 1}) == [(one, 3), (one, 4)]
    assert seqs(bench, {one: 0, two: 0}, limit=2) == [(one, 1), (one, 2)]
    assert seqs(bench, {}) == []


def test_a_number_is_visible_before_the_next_one_is_given_out(bench):
    """A late commit cannot slip in behind what a tail has already seen."""
    job = bench.submit().id
    inside, go = threading.Event(), threading.Event()

    def slow(session):
        emit(session, job, "progress", who="slow")
        inside.set()
        go.wait(10)

    def quick(session):
        session.execute(text("SET LOCAL lock_timeout = '10s'"))
        emit(session, job, "progress", who="quick")

    first = threading.Thread(target=bench.database.transaction, args=(slow,))
    second = threading.Thread(target=bench.database.transaction, args=(quick,))
    first.start()
    inside.wait(10)
    second.start()
    assert seqs(bench, {job: 0}) == [(job, 1)]
    go.set()
    first.join()
    second.join()
    assert [event.payload.get("who") for event in bench.database.transaction(tail, {job: 1})] == [
        "slow",
        "quick",
    ]


def test_every_visible_change_moves_the_jobs_number(bench):
    job = bench.submit().id
    numbers = [bench.job(job).last_event]
    while bench.work() is not None:
        for level_id in bench.database.transaction(stirring_levels):
            bench.database.transaction(refresh_level, level_id)
        numbers.append(bench.job(job).last_event)
    assert numbers == sorted(set(numbers))
