from __future__ import annotations

import pytest

from models.accounts import create_user
from models.audit import list_audit, record


@pytest.fixture
def ada(database):
    return database.transaction(create_user, "ada").id


@pytest.fixture
def entries(database, ada):
    """Five of them, in this order."""
    done = (
        (ada, "job.submit", "job-1"),
        (ada, "job.cancel", "job-1"),
        ("somebody gone", "job.submit", "job-2"),
        (ada, "job.submit", "job-3"),
        ("somebody gone", "job.cancel", "job-3"),
    )
    for actor, action, subject in done:
        database.transaction(record, actor, action, subject, "r1", why="a test")
    return done


def listed(database, **asked):
    lines = database.read(list_audit, **{"limit": 10, **asked})
    return [(line.entry.actor, line.entry.action, line.entry.subject) for line in lines]


def test_the_audit_is_read_newest_first_with_names(database, entries, ada):
    lines = database.read(list_audit, limit=10)
    assert [(line.entry.actor, line.entry.action, line.entry.subject) for line in lines] == [
        *reversed(entries)
    ]
    assert {line.entry.actor: line.actor_name for line in lines} == {ada: "ada", "somebody gone": None}
    assert (lines[0].entry.detail, lines[0].entry.request_id) == ({"why": "a test"}, "r1")


def test_pages_follow_each_other(database, entries):
    first = database.read(list_audit, limit=2)
    second = database.read(list_audit, limit=10, before=first[-1].entry.id)
    seen = [line.entry for line in (*first, *second)]
    assert [(entry.actor, entry.action, entry.subject) for entry in seen] == [*reversed(entries)]


def test_entries_are_found_by_who_what_and_whom(database, entries, ada):
    assert listed(database, actor=ada) == listed(database, actor="ada") == [entries[n] for n in (3, 1, 0)]
    assert listed(database, actor="somebody gone") == [entries[4], entries[2]]
    assert listed(database, action="job.cancel") == [entries[4], entries[1]]
    assert listed(database, subject="job-3") == [entries[4], entries[3]]
    assert listed(database, actor="ada", action="job.submit", subject="job-3") == [entries[3]]
    for nothing in ({"actor": "nobody"}, {"action": "a\0"}, {"subject": "\ud800"}):
        assert listed(database, **nothing) == []
