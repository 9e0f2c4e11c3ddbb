from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from models.accounts import create_token, create_user, disable_user, enable_user, revoke_token, set_role
from models.retention import forget_old
from models.roles import SCOPES, scopes_of
from models.sessions import (
    end_session,
    end_sessions,
    forget_sessions,
    open_session,
    session_principal,
    sessions_of,
)
from skipmap.errors import NotFound

DAY = 86400


@pytest.fixture
def ada(database):
    return database.transaction(create_user, "ada", role="editor")


@pytest.fixture
def sign_in(database):
    def make(user, **given):
        options = {"lifetime_seconds": 3600, "address": "127.0.0.1", "agent": "a browser", **given}
        return database.transaction(open_session, user.id, **options)

    return make


@pytest.fixture
def who(database):
    return lambda secret, idle_seconds=3600.0: database.read(session_principal, secret, idle_seconds)


def test_a_session_allows_what_the_role_does(database, ada, sign_in, who):
    row, secret = sign_in(ada)
    seen = who(secret)
    assert (seen.session_id, seen.expires_at, seen.signed_in_with) == (row.id, row.expires_at, "password")
    assert (seen.principal.user_id, seen.principal.user_name) == (ada.id, "ada")
    assert seen.principal.token_id == row.id
    assert seen.principal.scopes == scopes_of("editor")
    database.transaction(set_role, ada.id, "admin")
    assert who(secret).principal.scopes == set(SCOPES)


def test_a_session_opened_by_a_token_allows_what_the_token_does(database, ada, sign_in, who):
    token, _ = database.transaction(create_token, ada.id, "laptop", ["jobs:read"])
    row, secret = sign_in(ada, token_id=token.id)
    seen = who(secret)
    assert (seen.signed_in_with, seen.principal.token_id) == ("token", row.id)
    assert seen.principal.scopes == {"jobs:read"}
    database.transaction(revoke_token, token.id)
    assert who(secret) is None


def test_a_session_ends_with_the_token_that_opened_it(database, ada, sign_in, who, bench):
    soon = datetime.now(UTC) + timedelta(hours=1)
    token, _ = database.transaction(create_token, ada.id, "laptop", ["jobs:read"], soon)
    _, secret = sign_in(ada, token_id=token.id)
    assert who(secret) is not None
    bench.sql("UPDATE tokens SET expires_at = now() - interval '1 second'")
    assert who(secret) is None


def test_what_a_session_was_opened_with(database, ada, sign_in, who):
    _, secret = sign_in(ada, signed_in_with="oidc")
    assert who(secret).signed_in_with == "oidc"
    with pytest.raises(IntegrityError, match="ck_sessions_token"):
        sign_in(ada, signed_in_with="token")


def test_only_the_hash_is_stored(ada, sign_in, bench):
    row, secret = sign_in(ada)
    rows = bench.sql("SELECT to_jsonb(s)::text FROM sessions AS s")
    assert secret not in rows[0]
    assert row.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert len(secret) >= 43


def test_what_is_unknown_ended_over_or_rested_opens_nothing(database, ada, sign_in, who, bench):
    row, secret = sign_in(ada)
    for wrong in ("", secret[:-1], "\ud800", "a\0b"):
        assert who(wrong) is None
    _, over = sign_in(ada, lifetime_seconds=-1)
    assert who(over) is None
    bench.sql("UPDATE sessions SET seen_at = now() - interval '10 minutes'")
    assert who(secret, 599) is None
    assert who(secret, 601) is not None
    database.transaction(end_session, row.id)
    database.transaction(end_session, row.id)
    assert who(secret) is None


def test_disabled_users_are_out_and_have_to_sign_in_again(database, ada, sign_in, who):
    _, secret = sign_in(ada)
    database.transaction(disable_user, ada.id)
    assert who(secret) is None
    _, later = sign_in(ada)
    assert who(later) is None
    database.transaction(enable_user, ada.id)
    assert who(secret) is None
    assert who(sign_in(ada)[1]) is not None


def test_what_the_browser_says_is_cut_and_cleaned(ada, sign_in):
    row, _ = sign_in(ada, agent="a\0b\ud800" + "x" * 500, address="::1\0")
    assert row.agent.startswith("a\ufffdb?")
    assert len(row.agent) == 200
    assert row.address == "::1\ufffd"


def test_a_user_sees_and_ends_the_own_sessions(database, ada, sign_in, who):
    bob = database.transaction(create_user, "bob")
    (first, _), (second, mine), (theirs, other) = sign_in(ada), sign_in(ada), sign_in(bob)
    ended, _ = sign_in(ada)
    sign_in(ada, lifetime_seconds=-1)
    database.transaction(end_session, ended.id, user_id=ada.id)
    assert [row.id for row in database.read(sessions_of, ada.id, 60.0)] == [second.id, first.id]
    assert database.read(sessions_of, ada.id, 0.0) == []
    with pytest.raises(NotFound):
        database.transaction(end_session, theirs.id, user_id=ada.id)
    with pytest.raises(NotFound):
        database.transaction(end_session, "none")
    assert who(other) is not None
    assert database.transaction(end_sessions, ada.id, second.id) == 1
    assert who(mine) is not None
    assert database.transaction(end_sessions, ada.id) == 1
    assert who(mine) is None
    assert who(other) is not None


def test_a_lesser_role_ends_the_other_sessions(database, ada, sign_in, who):
    (here, mine), (_, other) = sign_in(ada), sign_in(ada)
    for role in ("editor", "publisher"):
        database.transaction(set_role, ada.id, role)
        assert who(other) is not None
    database.transaction(set_role, ada.id, "viewer", but=here.id)
    assert who(other) is None
    assert who(mine).principal.scopes == scopes_of("viewer")


def test_old_sessions_are_forgotten(database, ada, sign_in, bench, settings):
    live, _ = sign_in(ada, lifetime_seconds=100 * DAY)
    ended, _ = sign_in(ada, lifetime_seconds=100 * DAY)
    sign_in(ada)
    database.transaction(end_session, ended.id)
    assert database.transaction(forget_sessions, DAY) == 0
    move = "UPDATE sessions SET ended_at = ended_at - interval '31 days', expires_at = expires_at - interval '31 days'"
    bench.sql(move)
    forget_old(database, settings)
    assert bench.sql("SELECT id FROM sessions") == [live.id]


def test_sessions_go_with_their_user_and_token(database, ada, sign_in, bench):
    token, _ = database.transaction(create_token, ada.id, "laptop", ["jobs:read"])
    sign_in(ada, token_id=token.id)
    sign_in(ada)
    bench.sql("DELETE FROM tokens")
    assert bench.sql("SELECT signed_in_with FROM sessions") == ["password"]
    bench.sql("DELETE FROM users")
    assert bench.sql("SELECT count(*) FROM sessions") == [0]
