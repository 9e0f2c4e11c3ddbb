from __future__ import annotations

import pytest

from models.errors import Unfinished
from models.finish import finish


def test_a_chunk_with_a_group_missing_cannot_be_finished(bench):
    bench.submit()
    claimed = bench.reach("single")
    for keys in claimed.groups[1:]:
        bench.store_group(claimed, keys)
    before = bench.dump()
    with pytest.raises(Unfinished):
        bench.database.transaction(finish, claimed)
    assert bench.dump() == before
    bench.store_group(claimed, claimed.groups[0])
    bench.database.transaction(finish, claimed)
    assert bench.sql("SELECT state, owner, attempt FROM chunks WHERE kind = 'single'") == [
        ("succeeded", None, 1)
    ]
    assert bench.sql("SELECT outcome FROM attempts WHERE claim_token = :token", token=claimed.token) == [
        "succeeded"
    ]


@pytest.mark.parametrize("kind", ["dense", "cost", "held_out", "result"])
def test_every_kind_needs_its_units(bench, kind):
    bench.submit()
    claimed = bench.reach(kind)
    with pytest.raises(Unfinished):
        bench.database.transaction(finish, claimed)
    bench.store(claimed)
    bench.finish(claimed)


def test_finishing_ends_a_workers_run_of_crashes(bench):
    bench.submit()
    slot = bench.slot()
    bench.sql("UPDATE workers SET crashes_in_a_row = 4, last_crashed_chunk = 'x'")
    bench.work(slot)
    assert bench.sql("SELECT crashes_in_a_row, last_crashed_chunk FROM workers") == [(0, None)]
