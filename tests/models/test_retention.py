from __future__ import annotations

from models import removal, retention
from models.accounts import create_user
from models.base import new_id
from models.marks import take_mark
from models.retention import forget_old


def test_only_ended_jobs_go_and_only_after_their_time(bench):
    old, young = bench.submit(), bench.submit()
    bench.work_off()
    running = bench.submit()
    bench.sql("UPDATE jobs SET finished_at = clock_timestamp() - interval '3 days' WHERE id = :id", id=old.id)
    keep = bench.settings
    assert forget_old(bench.database, keep) == 0
    short = keep.model_copy(update={"retain_days": 2.0})
    assert forget_old(bench.database, short) == 1
    assert bench.sql("SELECT id FROM jobs ORDER BY id") == [young.id, running.id]
    assert bench.sql("SELECT count(*) FROM evaluations WHERE job_id = :id", id=old.id) == [0]
    assert bench.sql("SELECT count(*) FROM evaluation_cache") != [0]


def test_a_large_job_goes_bit_by_bit(bench, monkeypatch):
    monkeypatch.setattr(removal, "_ROWS_AT_A_TIME", dict.fromkeys(removal._ROWS_AT_A_TIME, 5))
    monkeypatch.setattr(retention, "_SECONDS_AT_A_TIME", 0.0)
    large = bench.submit()
    bench.work_off()
    bench.sql("UPDATE jobs SET finished_at = clock_timestamp() - interval '3 days'")
    short = bench.settings.model_copy(update={"retain_days": 2.0})
    calls = 1
    while forget_old(bench.database, short) == 0:
        # Nobody takes what is left of it for whole.
        assert bench.state(large.id) == "cancelled"
        calls += 1
    assert calls > 3
    assert {name for name, rows in bench.dump().items() if rows} == {"evaluation_cache"}


def test_old_marks_of_forms_are_forgotten(bench):
    user = bench.database.transaction(create_user, "ada")
    for mark in ("old", "young"):
        bench.database.transaction(take_mark, user.id, mark, new_id())
    bench.sql("UPDATE form_marks SET created_at = clock_timestamp() - interval '8 days' WHERE mark = 'old'")
    forget_old(bench.database, bench.settings)
    assert bench.sql("SELECT mark FROM form_marks") == ["young"]


def test_old_idempotency_keys_are_forgotten(bench):
    bench.submit(idempotency_key="old")
    bench.submit(idempotency_key="young")
    bench.sql(
        "UPDATE idempotency_keys SET created_at = clock_timestamp() - interval '8 days' WHERE key = 'old'"
    )
    forget_old(bench.database, bench.settings)
    assert bench.sql("SELECT key FROM idempotency_keys") == ["young"]
