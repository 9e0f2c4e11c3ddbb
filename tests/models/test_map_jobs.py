from __future__ import annotations

import pytest
from sqlalchemy import event
from sqlalchemy.orm.exc import DetachedInstanceError

from models.map_jobs import jobs_with, list_candidates


def listed(database, **asked):
    return [job.id for job in database.read(list_candidates, **{"limit": 10, **asked})]


def finished(bench, **fields):
    job_id = bench.submit().id
    bench.work_off()
    for name, value in fields.items():
        bench.sql(f"UPDATE jobs SET {name} = :value WHERE id = :id", value=value, id=job_id)
    return job_id


def test_jobs_come_by_id_with_one_statement(database, bench):
    ids = [bench.submit().id for _ in range(3)]
    asked = []
    event.listen(database._reader, "before_cursor_execute", lambda *given: asked.append(given[2]))
    found = database.read(jobs_with, [*ids, "nonsense", "01900000-0000-7000-8000-000000000000"])
    assert len(asked) == 1
    assert found.keys() == set(ids)
    with pytest.raises(DetachedInstanceError, match="spec"):
        _ = found[ids[0]].spec
    assert database.read(jobs_with, ["nonsense"]) == {}


def test_candidates_are_told_apart_before_they_are_counted(database, bench):
    old = finished(bench, domain="math")
    other = finished(bench, domain="math", target="other")
    first, second = finished(bench), finished(bench)
    running = bench.submit().id
    assert listed(database) == [second, first, other, old]
    assert running not in listed(database)
    assert listed(database, limit=1, without_jobs=(second,)) == [first]
    (target, draft, domain) = bench.sql(f"SELECT target, draft, domain FROM jobs WHERE id = '{first}'")[0]
    # The newest are of a domain that is there already: they take no place in the list.
    assert listed(database, limit=1, target=target, draft=draft, without_domains={domain}) == [old]
    assert listed(database, draft="another") == []
