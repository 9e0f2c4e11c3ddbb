from __future__ import annotations

import pytest

from models.accounts import authenticate, create_token, create_user
from models.sessions import open_session, session_principal
from models.uses import note_use


@pytest.fixture
def ada(database):
    return database.transaction(create_user, "ada")


@pytest.fixture
def token(database, ada):
    """Look a token up."""
    _, secret = database.transaction(create_token, ada.id, "laptop", ["admin"])
    return lambda: database.read(authenticate, secret)


@pytest.fixture
def session(database, ada):
    """Look a session up that may rest for so long."""
    given = {"lifetime_seconds": 3600, "address": "127.0.0.1", "agent": "a browser"}
    _, secret = database.transaction(open_session, ada.id, **given)

    def look(idle_seconds=3600.0):
        found = database.read(session_principal, secret, idle_seconds)
        return found and found.principal

    return look


def test_looking_somebody_up_writes_nothing(token, session, bench):
    bench.sql("UPDATE sessions SET seen_at = now() - interval '10 minutes'")
    stored = "SELECT to_jsonb(t)::text FROM tokens AS t UNION SELECT to_jsonb(s)::text FROM sessions AS s"
    before = bench.sql(stored)
    assert (token().use.of, session().use.of) == ("token", "session")
    assert bench.sql(stored) == before


def test_the_use_of_a_token_is_noted_within_a_minute(token, database, bench):
    look = "SELECT last_used_at FROM tokens"
    assert token().use.noted_at is None
    assert database.read(note_use, token().use)
    first = bench.sql(look)
    assert first != [None]
    assert token().use is None
    bench.sql("UPDATE tokens SET last_used_at = now() - interval '61 seconds'")
    assert database.read(note_use, token().use)
    assert bench.sql(look) > first


def test_the_use_of_a_session_is_noted_within_a_minute(session, database, bench):
    look = "SELECT seen_at FROM sessions"
    first = bench.sql(look)
    assert session().use is None
    bench.sql("UPDATE sessions SET seen_at = now() - interval '61 seconds'")
    assert database.read(note_use, session().use)
    assert bench.sql(look) > first
    assert session().use is None


def test_of_those_who_saw_the_same_one_notes_it(session, token, database, bench):
    bench.sql("UPDATE sessions SET seen_at = now() - interval '61 seconds'")
    for look in (session, token):
        uses = [look().use for _ in range(3)]
        assert [database.read(note_use, use) for use in uses] == [True, False, False]


def test_a_session_in_use_does_not_count_as_resting(session, database, bench):
    for _ in range(3):
        bench.sql("UPDATE sessions SET seen_at = seen_at - interval '40 seconds'")
        assert database.read(note_use, session(60).use)
    bench.sql("UPDATE sessions SET seen_at = seen_at - interval '61 seconds'")
    assert session(60) is None


def test_what_is_gone_is_not_noted(token, database, bench):
    use = token().use
    bench.sql("DELETE FROM tokens")
    assert not database.read(note_use, use)
