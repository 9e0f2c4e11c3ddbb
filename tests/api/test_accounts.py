from __future__ import annotations

from datetime import datetime

import pytest


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
