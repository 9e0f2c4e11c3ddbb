from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from models.accounts import authenticate, create_token, create_user, disable_user, revoke_token
from models.people import find_held_token, find_person, list_held_tokens, list_people
from models.sessions import end_session, open_session
from models.uses import note_use
from skipmap.errors import NotFound

NOBODY = "01900000-0000-7000-8000-000000000000"
DAY = 86400.0


@pytest.fixture
def ada(database) -> str:
    return database.transaction(create_user, "ada", role="admin").id


def sign_in(database, user_id: str, lifetime_seconds: float = 60):
    return database.transaction(
        open_session, user_id, lifetime_seconds=lifetime_seconds, address="::1", agent="tests"
    )[0]


def test_somebody_new_was_never_seen(database, ada):
    person = database.read(find_person, ada, DAY)
    assert (person.user.name, person.seen_at, person.sessions, person.tokens) == ("ada", None, 0, 0)
    with pytest.raises(NotFound):
        database.read(find_person, NOBODY, DAY)


def test_sessions_and_tokens_count_as_long_as_they_last(database, ada):
    kept, ended = sign_in(database, ada), sign_in(database, ada)
    sign_in(database, ada, lifetime_seconds=-1)
    database.transaction(end_session, ended.id)
    database.transaction(create_token, ada, "kept", ["jobs:read"])
    past = datetime.now(UTC) - timedelta(seconds=1)
    database.transaction(create_token, ada, "expired", ["jobs:read"], past)
    revoked, _ = database.transaction(create_token, ada, "revoked", ["jobs:read"])
    database.transaction(revoke_token, revoked.id)
    person = database.read(find_person, ada, DAY)
    assert (person.sessions, person.tokens) == (1, 1)
    assert person.seen_at >= kept.seen_at


def test_sessions_that_rested_too_long_do_not_count(database, ada, bench):
    sign_in(database, ada)
    sign_in(database, ada)
    bench.sql(
        "UPDATE sessions SET seen_at = seen_at - interval '1 hour' WHERE id = (SELECT min(id) FROM sessions)"
    )
    assert database.read(find_person, ada, DAY).sessions == 2
    assert database.read(find_person, ada, 1800.0).sessions == 1
    (person,) = database.read(list_people, 1800.0, limit=9)
    assert person.sessions == 1


def test_the_last_sign_of_life_is_a_sessions_or_a_tokens(database, ada, bench):
    sign_in(database, ada)
    bench.sql("UPDATE sessions SET seen_at = seen_at - interval '1 hour'")
    by_session = database.read(find_person, ada, DAY).seen_at
    _, secret = database.transaction(create_token, ada, "one", ["jobs:read"])
    assert database.read(find_person, ada, DAY).seen_at == by_session
    database.read(note_use, database.read(authenticate, secret).use)
    assert database.read(find_person, ada, DAY).seen_at - by_session > timedelta(minutes=59)


def test_people_are_listed_by_pages_and_by_parts_of_names(database):
    for name in ("ada", "Adam", "grace", "100%_sure"):
        database.transaction(create_user, name)
    first = database.read(list_people, DAY, limit=2)
    assert [person.user.name for person in first] == ["100%_sure", "grace"]
    second = database.read(list_people, DAY, limit=2, before=first[-1].user.id)
    assert [person.user.name for person in second] == ["Adam", "ada"]

    def named(part: str) -> list[str]:
        return [person.user.name for person in database.read(list_people, DAY, limit=9, name=part)]

    assert named("ADA") == ["Adam", "ada"]
    assert named("0%_s") == ["100%_sure"]
    assert named("%") == ["100%_sure"]
    assert named("\0") == []


def test_tokens_come_with_who_holds_them(database, ada):
    grace = database.transaction(create_user, "grace").id
    one, _ = database.transaction(create_token, ada, "one", ["jobs:read"])
    two, _ = database.transaction(create_token, grace, "two", ["jobs:read"])
    database.transaction(disable_user, grace)
    found = database.read(list_held_tokens, limit=9)
    assert [(held.token.name, held.holder.name) for held in found] == [("two", "grace"), ("one", "ada")]
    assert found[0].holder.disabled_at is not None
    assert [held.token.id for held in database.read(list_held_tokens, limit=9, before=two.id)] == [one.id]
    assert [held.token.id for held in database.read(list_held_tokens, limit=9, holder="ada")] == [one.id]
    assert database.read(list_held_tokens, limit=9, holder="a\0da") == []
    assert database.read(find_held_token, one.id).holder.name == "ada"
    with pytest.raises(NotFound):
        database.read(find_held_token, NOBODY)
