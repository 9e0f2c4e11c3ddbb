from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from models import accounts
from models.accounts import (
    authenticate,
    create_token,
    create_user,
    disable_user,
    enable_user,
    find_user,
    link_oidc,
    list_tokens,
    list_users,
    revoke_token,
    set_role,
    user_by_oidc,
)
from models.audit import record
from models.errors import Conflict
from models.sessions import open_session, sessions_of
from skipmap.errors import InvalidInput, NotFound


@pytest.fixture
def user(database):
    return database.transaction(create_user, "ada")


def test_a_token_opens_what_its_scopes_say(database, user):
    token, secret = database.transaction(create_token, user.id, "laptop", ["jobs:read"])
    principal = database.read(authenticate, secret)
    assert (principal.user_name, principal.token_id) == ("ada", token.id)
    assert principal.may("jobs:read")
    assert not principal.may("jobs:write")
    _, admin = database.transaction(create_token, user.id, "root", ["admin"])
    assert database.read(authenticate, admin).may("maps:publish")


def test_only_the_hash_is_stored(database, user, bench):
    token, secret = database.transaction(create_token, user.id, "laptop", ["admin"])
    rows = bench.sql("SELECT to_jsonb(t)::text FROM tokens AS t")
    assert secret not in rows[0]
    assert token.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert len(secret) > 43
    assert secret.startswith(token.prefix)


def test_what_is_wrong_expired_revoked_or_disabled_opens_nothing(database, user):
    now = datetime.now(UTC)
    _, expired = database.transaction(create_token, user.id, "a", ["admin"], now - timedelta(seconds=1))
    token, good = database.transaction(create_token, user.id, "b", ["admin"], now + timedelta(hours=1))
    for secret in ("", "skm_", good[:-1], good.upper(), "\ud800", "a\0b", expired):
        assert database.read(authenticate, secret) is None
    assert database.read(authenticate, good) is not None
    database.transaction(revoke_token, token.id)
    database.transaction(revoke_token, token.id)
    assert database.read(authenticate, good) is None
    _, other = database.transaction(create_token, user.id, "c", ["jobs:read"])
    database.transaction(disable_user, user.id)
    assert database.read(authenticate, other) is None
    database.transaction(enable_user, user.id)
    assert database.read(authenticate, other) is not None
    assert [one.name for one in database.read(list_tokens, limit=9, user_id=user.id)] == ["c", "b", "a"]


def test_bad_requests_are_explained(database, user):
    with pytest.raises(InvalidInput, match="jobs:eat"):
        database.transaction(create_token, user.id, "x", ["jobs:eat"])
    with pytest.raises(InvalidInput, match="none given"):
        database.transaction(create_token, user.id, "x", [])
    with pytest.raises(NotFound):
        database.transaction(create_token, "nobody", "x", ["admin"])
    with pytest.raises(NotFound):
        database.transaction(revoke_token, "none")
    for change in (disable_user, enable_user, find_user, partial(set_role, role="viewer")):
        with pytest.raises(NotFound):
            database.transaction(change, "nobody")
    with pytest.raises(Conflict, match="taken"):
        database.transaction(create_user, "ada")
    for change in (create_user, partial(set_role, user_id=user.id)):
        with pytest.raises(InvalidInput, match="viewer, editor, publisher, admin"):
            database.transaction(partial(change, "bob") if change is create_user else change, role="root")


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


def test_users_are_found_by_id_name_and_identity(database, user):
    bob = database.transaction(create_user, "bob", role="publisher", oidc_subject="idp|1")
    assert (user.role, bob.role) == ("viewer", "publisher")
    assert database.read(find_user, bob.id).name == "bob"
    assert [one.id for one in database.read(list_users, limit=2, name="bob")] == [bob.id]
    assert database.read(user_by_oidc, "idp|1").id == bob.id
    assert database.read(user_by_oidc, "idp|2") is None
    with pytest.raises(Conflict, match="identity"):
        database.transaction(create_user, "eve", oidc_subject="idp|1")
    with pytest.raises(Conflict, match="identity"):
        database.transaction(link_oidc, user.id, "idp|1")
    database.transaction(link_oidc, bob.id, None)
    database.transaction(link_oidc, user.id, "idp|1")
    assert database.read(user_by_oidc, "idp|1").id == user.id
    with pytest.raises(NotFound):
        database.transaction(link_oidc, "nobody", "idp|3")


def test_another_identity_ends_the_other_sessions(database, user):
    def sign_in() -> str:
        return database.transaction(open_session, user.id, lifetime_seconds=60, address="::1", agent="tests")[
            0
        ].id

    def listed() -> list[str]:
        return [row.id for row in database.read(sessions_of, user.id, 60.0)]

    here, other = sign_in(), sign_in()
    database.transaction(partial(link_oidc, but=here), user.id, None)
    assert listed() == [other, here]
    database.transaction(partial(link_oidc, but=here), user.id, "idp|1")
    assert listed() == [here]
    database.transaction(link_oidc, user.id, None)
    assert listed() == []


def test_the_last_administrator_stays(database, user):
    database.transaction(set_role, user.id, "admin")
    database.transaction(set_role, user.id, "admin")
    for change in (disable_user, partial(set_role, role="publisher")):
        with pytest.raises(Conflict, match="last administrator") as caught:
            database.transaction(change, user.id)
        assert caught.value.state == "last-admin"
    bob = database.transaction(create_user, "bob", role="admin")
    database.transaction(set_role, user.id, "viewer")
    with pytest.raises(Conflict):
        database.transaction(disable_user, bob.id)
    database.transaction(set_role, user.id, "admin")
    database.transaction(disable_user, bob.id)
    # Whoever is disabled is no administrator, and need not be kept as one.
    database.transaction(set_role, bob.id, "viewer")
    assert database.read(find_user, bob.id).role == "viewer"


def test_who_holds_an_admin_token_is_an_administrator(database, user, bench):
    root = database.transaction(create_user, "root", role="admin")
    token, _ = database.transaction(create_token, user.id, "laptop", ["admin"])
    database.transaction(disable_user, root.id)
    with pytest.raises(Conflict, match="'ada' is the last"):
        database.transaction(disable_user, user.id)
    database.transaction(enable_user, root.id)
    for ended in ("revoked_at = now()", "revoked_at = NULL, expires_at = now()"):
        bench.sql(f"UPDATE tokens SET {ended} WHERE id = :id", id=token.id)
        with pytest.raises(Conflict, match="'root' is the last"):
            database.transaction(disable_user, root.id)
    database.transaction(disable_user, user.id)


@pytest.mark.parametrize("way", ["each other", "themselves", "both ways"])
def test_two_at_once_cannot_take_the_last_administrator_away(database, monkeypatch, way):
    """Both have begun, and each finds two administrators unless the changes wait for each other."""
    ada = database.transaction(create_user, "ada", role="admin").id
    bob = database.transaction(create_user, "bob", role="admin").id
    changes = {
        "each other": (partial(disable_user, user_id=bob), partial(disable_user, user_id=ada)),
        "themselves": (
            partial(set_role, user_id=ada, role="viewer"),
            partial(set_role, user_id=bob, role="viewer"),
        ),
        "both ways": (partial(disable_user, user_id=bob), partial(set_role, user_id=ada, role="editor")),
    }[way]
    both = threading.Barrier(2)
    checks = threading.Barrier(2)
    checked = accounts._check_not_last

    def slow_check(session, user):
        checked(session, user)
        try:
            # The other one comes here only if it did not wait.
            checks.wait(0.5)
        except threading.BrokenBarrierError:
            checks.reset()

    monkeypatch.setattr(accounts, "_check_not_last", slow_check)

    def change(work):
        def begun(session):
            find_user(session, ada)
            both.wait(10)
            return work(session)

        tries = iter((begun, work))
        try:
            database.transaction(lambda session: next(tries, work)(session))
        except Conflict as error:
            return error.state
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(change, changes)) == ["done", "last-admin"]
    left = [
        user
        for user in database.read(list_users, limit=9)
        if user.disabled_at is None and user.role == "admin"
    ]
    assert len(left) == 1
