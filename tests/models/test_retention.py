from models.retention import forget_old


def test_only_ended_jobs_go_and_only_after_their_time(bench):
    old, young = bench.submit(), bench.submit()
    bench.work_off()
    running = bench.submit()
    bench.sql("UPDATE jobs SET finished_at = clock_timestamp() - interval '3 days' WHERE id = :id", id=old.id)
    keep = bench.settings
    assert bench.database.transaction(forget_old, keep) == 0
    short = keep.model_copy(update={"retain_days": 2.0})
    assert bench.database.transaction(forget_old, short) == 1
    assert bench.sql("SELECT id FROM jobs ORDER BY id") == [young.id, running.id]
    assert bench.sql("SELECT count(*) FROM evaluations WHERE job_id = :id", id=old.id) == [0]
    assert bench.sql("SELECT count(*) FROM evaluation_cache") != [0]


def test_old_idempotency_keys_are_forgotten(bench):
    bench.submit(idempotency_key="old")
    bench.submit(idempotency_key="young")
    bench.sql(
        "UPDATE idempotency_keys SET created_at = clock_timestamp() - interval '8 days' WHERE key = 'old'"
    )
    bench.database.transaction(forget_old, bench.settings)
    assert bench.sql("SELECT key FROM idempotency_keys") == ["young"]
