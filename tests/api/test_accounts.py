from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import get_args

import pytest

from models.passwords import verify
from models.roles import ROLES, SCOPES
from models.sessions import open_session, session_principal
from skipmap.client import accounts as documents

GOOD = "correct horse battery"


@pytest.fixture
def ada(admin):
    """An editor with a password."""
    return admin.post("/users", json={"name": "Ada", "role": "editor", "password": GOOD}).get_json()


@pytest.fixture
def sign_in(database):
    """Open a session of a user; gives who it is for as long as it goes on."""

    def make(user_id):
        given = {"lifetime_seconds": 3600, "address": "127.0.0.1", "agent": "a browser"}
        _, secret = database.transaction(open_session, user_id, **given)
        return lambda: database.read(session_principal, secret, 3600)

    return make


def test_client_and_service_know_the_same_roles_and_scopes():
    assert get_args(documents.Role) == ROLES
    assert get_args(documents.Scope) == SCOPES


def test_the_caller_is_told_who_he_is(caller):
    me = caller.get("/me").get_json()
    assert (me["user_id"], me["token_id"]) == (caller.user_id, caller.token_id)
    assert me["scopes"] == ["jobs:read", "jobs:write"]


def test_an_administrator_makes_users_and_tokens(admin, app, bench):
    user = admin.post("/users", json={"name": "Ada"}).get_json()
    assert admin.post("/users", json={"name": "Ada"}).status_code == 409
    body = {"name": "for Ada", "scopes": ["jobs:read"], "user_id": user["id"], "expires_in_seconds": 3600}
    made = admin.post("/tokens", json=body)
    assert made.status_code == 201
    token = made.get_json()
    lasts = datetime.fromisoformat(token["expires_at"]) - datetime.fromisoformat(token["created_at"])
    assert 3590 < lasts.total_seconds() < 3610
    as_ada = {"Authorization": f"Bearer {token['secret']}"}
    client = app.test_client()
    assert client.get("/api/v1/me", headers=as_ada).get_json()["user_name"] == "Ada"
    own = client.get("/api/v1/tokens", headers=as_ada).get_json()["items"]
    assert [entry["id"] for entry in own] == [token["id"]]
    assert "secret" not in own[0]
    assert len(admin.get("/tokens").get_json()["items"]) == 2
    assert admin.get("/users?limit=1").get_json()["items"] == [user]
    assert admin.delete(f"/users/{user['id']}").status_code == 204
    assert client.get("/api/v1/me", headers=as_ada).status_code == 401
    assert admin.get("/users?limit=1").get_json()["items"][0]["disabled_at"] is not None
    assert token["secret"] not in str(bench.sql("SELECT detail FROM audit"))


def test_a_token_neither_sees_nor_ends_the_others_of_its_user(app, admin):
    small = admin.post("/tokens", json={"name": "small", "scopes": ["nodes:report"]}).get_json()
    headers = {"Authorization": f"Bearer {small['secret']}"}
    client = app.test_client()
    seen = client.get("/api/v1/tokens", headers=headers).get_json()["items"]
    assert [entry["id"] for entry in seen] == [small["id"]]
    assert client.delete(f"/api/v1/tokens/{admin.token_id}", headers=headers).status_code == 404
    assert admin.get("/me").status_code == 200


def test_tokens_are_revoked_by_themselves_or_an_administrator(caller, admin, make_caller):
    other = make_caller("jobs:read")
    assert caller.delete(f"/tokens/{other.token_id}").status_code == 404
    assert caller.delete(f"/tokens/{caller.token_id}").status_code == 204
    assert caller.get("/me").status_code == 401
    assert admin.delete(f"/tokens/{other.token_id}").status_code == 204
    assert other.get("/me").status_code == 401


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes.0"),
        ({"user_id": "nobody"}, "user_id"),
        ({"expires_in_seconds": -1}, "expires_in_seconds"),
        ({"name": ""}, "name"),
    ],
)
def test_tokens_that_make_no_sense(admin, change, field):
    answer = admin.post("/tokens", json={"name": "a", "scopes": ["admin"]} | change)
    assert (answer.status_code, answer.get_json()["field"]) == (422, field)


def test_only_an_administrator_makes_tokens(caller, bench):
    before = bench.sql("SELECT id FROM tokens")
    assert caller.post("/tokens", json={"name": "a", "scopes": ["jobs:read"]}).status_code == 403
    assert bench.sql("SELECT id FROM tokens") == before


def test_a_user_is_shown_with_role_and_without_password(admin, ada, database, bench):
    assert (ada["role"], ada["has_password"], ada["disabled_at"]) == ("editor", True, None)
    plain = admin.post("/users", json={"name": "Bob"}).get_json()
    assert (plain["role"], plain["has_password"]) == ("viewer", False)
    assert admin.get("/users?name=Ada").get_json()["items"] == [ada]
    assert admin.get("/users?name=Eve").get_json()["items"] == []
    assert verify(database, "Ada", GOOD).id == ada["id"]
    assert GOOD not in str(bench.sql("SELECT to_jsonb(a)::text FROM audit AS a"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"role": "root"}, "role"),
        ({"password": "short"}, "password"),
        ({"password": "Grace Hopper"}, "password"),
        ({"password": 1}, "password"),
    ],
)
def test_users_that_cannot_be(admin, change, field):
    answer = admin.post("/users", json={"name": "Grace Hopper"} | change)
    assert (answer.status_code, answer.get_json()["field"]) == (422, field)
    assert admin.get("/users?name=Grace+Hopper").get_json()["items"] == []


def test_a_user_is_changed(admin, ada, database, sign_in, bench):
    signed_in = sign_in(ada["id"])
    path = f"/users/{ada['id']}"
    answer = admin.patch(path, json={"role": "publisher"})
    assert (answer.status_code, answer.get_json()) == (200, ada | {"role": "publisher"})
    assert "maps:publish" in signed_in().principal.scopes
    assert admin.patch(path, json={"role": "viewer"}).get_json()["role"] == "viewer"
    assert signed_in() is None
    signed_in = sign_in(ada["id"])
    assert admin.patch(path, json={"password": "another password"}).get_json()["has_password"]
    assert signed_in() is None
    assert verify(database, "Ada", "another password") is not None
    assert not admin.patch(path, json={"password": None}).get_json()["has_password"]
    signed_in = sign_in(ada["id"])
    assert admin.patch(path, json={"disabled": True}).get_json()["disabled_at"] is not None
    assert signed_in() is None
    assert admin.patch(path, json={"disabled": False, "role": "editor"}).get_json()["disabled_at"] is None
    assert bench.sql("SELECT action, detail FROM audit WHERE subject = :id ORDER BY id", id=ada["id"]) == [
        ("user.create", {"role": "editor"}),
        ("user.role", {"role": "publisher"}),
        ("user.role", {"role": "viewer"}),
        ("user.password", {"removed": False}),
        ("user.password", {"removed": True}),
        ("user.disable", {}),
        ("user.role", {"role": "editor"}),
        ("user.enable", {}),
    ]


def test_a_disabled_users_tokens_are_refused_at_once(admin, make_caller):
    other = make_caller("jobs:read")
    assert other.get("/me").status_code == 200
    admin.patch(f"/users/{other.user_id}", json={"disabled": True})
    assert other.get("/me").status_code == 401
    admin.patch(f"/users/{other.user_id}", json={"disabled": False})
    assert other.get("/me").status_code == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, "body"),
        ({"role": None}, "body"),
        ({"role": "root"}, "role"),
        ({"password": "short"}, "password"),
        ({"password": "Ada"}, "password"),
        ({"disabled": "perhaps"}, "disabled"),
        ({"name": "Eve"}, "name"),
    ],
)
def test_changes_that_make_no_sense(admin, ada, change, field):
    answer = admin.patch(f"/users/{ada['id']}", json=change)
    assert (answer.status_code, answer.get_json()["field"]) == (422, field)
    assert admin.get("/users?name=Ada").get_json()["items"] == [ada]


@pytest.mark.parametrize("change", [{"role": "viewer"}, {"password": GOOD}, {"disabled": True}])
def test_a_user_that_is_not_there(admin, change):
    assert admin.patch("/users/01900000-0000-7000-8000-000000000000", json=change).status_code == 404


def test_only_an_administrator_changes_users(caller, admin, ada):
    assert caller.patch(f"/users/{ada['id']}", json={"role": "admin"}).status_code == 403
    assert caller.patch(f"/users/{caller.user_id}", json={"role": "admin"}).status_code == 403


def test_the_last_administrator_stays(admin, ada):
    own = f"/users/{admin.user_id}"
    refused = admin.patch(own, json={"disabled": True})
    assert (refused.status_code, refused.get_json()["state"]) == (409, "last-admin")
    assert admin.delete(own).status_code == 409
    both = admin.patch(own, json={"role": "admin", "disabled": True})
    assert both.status_code == 409
    assert admin.get("/users").get_json()["items"][-1]["role"] == "viewer", "all of it or nothing"
    admin.patch(f"/users/{ada['id']}", json={"role": "admin"})
    assert admin.delete(own).status_code == 204
    assert admin.get("/me").status_code == 401


def test_two_administrators_cannot_disable_each_other(make_caller):
    callers = [make_caller("admin"), make_caller("admin")]
    both = threading.Barrier(2)

    def disable(pair):
        me, other = pair
        both.wait(10)
        return me.patch(f"/users/{other.user_id}", json={"disabled": True}).status_code

    with ThreadPoolExecutor(2) as pool:
        # Whoever comes second may find the own token refused already.
        first, second = sorted(pool.map(disable, (callers, callers[::-1])))
    assert first == 200
    assert second in (401, 409)
