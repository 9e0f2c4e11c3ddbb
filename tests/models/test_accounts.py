from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from models.accounts import (
    authenticate,
    create_token,
    create_user,
    disable_user,
    revoke_token,
    tokens_of,
)
from models.audit import record
from models.errors import Conflict
from skipmap.errors import InvalidInput, NotFound


@pytest.fixture
def user(database):
    return database.transaction(create_user, "ada")


def test_a_token_opens_what_its_scopes_say(database, user):
    token, secret = database.transaction(create_token, user.id, "laptop", ["jobs:read"])
    principal = database.transaction(authenticate, secret)
    assert (principal.user_name, principal.token_id) == ("ada", token.id)
    assert principal.may("jobs:read")
    assert not principal.may("jobs:write")
    _, admin = database.transaction(create_token, user.id, "root", ["admin"])
    assert database.transaction(authenticate, admin).may("maps:publish")


def test_only_the_hash_is_stored(database, user, bench):
    token, secret = database.transaction(create_token, user.id, "laptop", ["admin"])
    rows = bench.sql("SELECT to_jsonb(t)::text FROM tokens AS t")
    assert secret not in rows[0]
    assert token.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert len(secret) > 43
    assert secret.startswith(token.prefix)


def test_use_is_noted_within_a_minute(database, user, bench):
    _, secret = database.transaction(create_token, user.id, "laptop", ["admin"])
    look = "SELECT last_used_at FROM tokens"
    assert bench.sql(look) == [None]
    database.transaction(authenticate, secret)
    first = bench.sql(look)
    database.transaction(authenticate, secret)
    assert bench.sql(look) == first
    bench.sql("UPDATE tokens SET last_used_at = now() - interval '2 minutes'")
    database.transaction(authenticate, secret)
    assert bench.sql(look) > first


def test_what_is_wrong_expired_revoked_or_disabled_opens_nothing(database, user):
    now = datetime.now(UTC)
    _, expired = database.transaction(create_token, user.id, "a", ["admin"], now - timedelta(seconds=1))
    token, good = database.transaction(create_token, user.id, "b", ["admin"], now + timedelta(hours=1))
    for secret in ("", "skm_", good[:-1], good.upper(), "\ud800", "a\0b", expired):
        assert database.transaction(authenticate, secret) is None
    assert database.transaction(authenticate, good) is not None
    database.transaction(revoke_token, token.id)
    database.transaction(revoke_token, token.id)
    assert database.transaction(authenticate, good) is None
    _, other = database.transaction(create_token, user.id, "c", ["admin"])
    database.transaction(disable_user, user.id)
    assert database.transaction(authenticate, other) is None
    assert [one.name for one in database.transaction(tokens_of, user.id)] == ["c", "b", "a"]


def test_bad_requests_are_explained(database, user):
    with pytest.raises(InvalidInput, match="jobs:eat"):
        database.transaction(create_token, user.id, "x", ["jobs:eat"])
    with pytest.raises(InvalidInput, match="none given"):
        database.transaction(create_token, user.id, "x", [])
    with pytest.raises(NotFound):
        database.transaction(create_token, "nobody", "x", ["admin"])
    with pytest.raises(NotFound):
        database.transaction(revoke_token, "none")
    with pytest.raises(NotFound):
        database.transaction(disable_user, "nobody")
    with pytest.raises(Conflict, match="taken"):
        database.transaction(create_user, "ada")


def test_audit_entries_go_with_their_change(database, bench):
    def change(session, fails):
        record(session, "ada", "token.create", "t1", "r1", scopes=["admin"])
        if fails:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        database.transaction(change, True)
    database.transaction(change, False)
    assert bench.sql("SELECT actor, action, subject, detail, request_id FROM audit") == [
        ("ada", "token.create", "t1", {"scopes": ["admin"]}, "r1")
    ]
