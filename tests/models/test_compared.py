from __future__ import annotations

from models.compared import jobs_by_id


def test_jobs_come_by_their_ids_and_others_are_left_out(bench):
    first, second, _ = (bench.submit() for _ in range(3))
    gone = "00000000-0000-7000-8000-000000000000"
    found = bench.database.read(jobs_by_id, [second.id, first.id, gone])
    assert {job_id: job.id for job_id, job in found.items()} == {first.id: first.id, second.id: second.id}
    assert bench.database.read(jobs_by_id, []) == {}
