"""Calibration sets, the catalog and idempotency keys."""

from __future__ import annotations

import pytest

from models.calibration_sets import content_of, delete_set, store_set
from models.catalog import Domain, Draft, Target, add_entry, delete_entry, entries, entry
from models.errors import Conflict
from models.idempotency import forget_keys
from skipmap.errors import NotFound


def test_equal_bytes_are_stored_once(database):
    first, new = database.transaction(store_set, b"\0\xff lines", "a", 2, {"words": 7})
    again, newer = database.transaction(store_set, b"\0\xff lines", "b", 2, {})
    assert (new, newer, again.id, again.name, first.size) == (True, False, first.id, "a", 8)
    assert database.transaction(content_of, first.id) == b"\0\xff lines"


def test_a_set_that_a_job_uses_stays(bench, database):
    kept, _ = database.transaction(store_set, b"one", "a", 1, {})
    free, _ = database.transaction(store_set, b"two", "b", 1, {})
    job = bench.submit(calibration_set_id=kept.id)
    assert bench.must_claim().calibration_set_id == kept.id
    with pytest.raises(Conflict, match="used by jobs"):
        database.transaction(delete_set, kept.id)
    database.transaction(delete_set, free.id)
    for missing in (delete_set, content_of):
        with pytest.raises(NotFound):
            database.transaction(missing, free.id)
    assert bench.job(job.id).calibration_set_id == kept.id


@pytest.mark.parametrize("table", [Target, Draft, Domain])
def test_the_catalog_keeps_definitions_by_name(database, table):
    database.transaction(add_entry, table, "b", {"id": "x"})
    database.transaction(add_entry, table, "a", {"id": "y"})
    assert [one.name for one in database.transaction(entries, table)] == ["a", "b"]
    assert database.transaction(entry, table, "b").definition == {"id": "x"}
    with pytest.raises(Conflict, match="taken"):
        database.transaction(add_entry, table, "a", {})
    database.transaction(delete_entry, table, "a")
    with pytest.raises(NotFound, match=f"no {table.__tablename__[:-1]} named 'a'"):
        database.transaction(entry, table, "a")


def test_old_keys_are_forgotten(bench, database):
    bench.submit(principal="me", idempotency_key="k")
    assert database.transaction(forget_keys, 3600.0) == 0
    bench.sql("UPDATE idempotency_keys SET created_at = now() - interval '2 hours'")
    assert database.transaction(forget_keys, 3600.0) == 1
