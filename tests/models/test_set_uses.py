from __future__ import annotations

from models.calibration_sets import store_set
from models.set_uses import jobs_with, uses_of


def test_who_uses_a_set(bench):
    used, unused = (
        bench.database.transaction(lambda session, n=n: store_set(session, b"%d" % n, "a set", 1, {})[0].id)
        for n in range(2)
    )
    first, second = (bench.submit(calibration_set_id=used).id for _ in range(2))
    assert bench.database.read(uses_of, [used, unused]) == {used: 2}
    assert bench.database.read(uses_of, []) == {}
    assert [job.id for job in bench.database.read(jobs_with, used, limit=9)] == [second, first]
    assert [job.id for job in bench.database.read(jobs_with, used, limit=1)] == [second]
    assert bench.database.read(jobs_with, unused, limit=9) == []
