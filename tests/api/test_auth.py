"""Every address, as the app serves it, against every kind of caller; a new one is covered by being there."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask

from api.app import all_routes
from api.auth import TokenCache
from api.routes import GuardedFlask
from models.accounts import SCOPES, disable_user, revoke_token

_MISSING = "01900000-0000-7000-8000-000000000000"
_PARTS = {"id": _MISSING, "name": "nothing", "number": "1", "node": "nothing", "owner": "nobody/cpu-0"}
_OPEN = {"/healthz", "/readyz", "/metrics", "/api/v1/openapi.json", "/api/v1/docs"}


def _addresses(app: Flask) -> list[tuple[str, str, str]]:
    """Method, address and access of everything that the app serves."""
    return [
        (
            method,
            re.sub(r"<(\w+):\w+>", lambda part: _PARTS[part[1]], rule.rule),
            app.view_functions[rule.endpoint].access,
        )
        for rule in app.url_map.iter_rules()
        for method in sorted(rule.methods - {"HEAD"})
    ]


def _guarded(app: Flask) -> list[tuple[str, str, str]]:
    return [entry for entry in _addresses(app) if entry[1] not in _OPEN]


def _status(app: Flask, method: str, path: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": token}
    answer = app.test_client().open(path, method=method, headers=headers)
    if answer.status_code in (401, 403):
        assert answer.mimetype == "application/problem+json"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    return answer.status_code


def test_the_table_is_whole(app):
    assert len(_addresses(app)) == len(all_routes()) > 45
    assert {path for _, path, access in _addresses(app) if access in ("public", "metrics")} == _OPEN


def test_nobody_comes_in_without_a_valid_token(app, make_caller, database):
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = make_caller(*SCOPES, expires_at=past)
    # The last one is the administrator who has to stay.
    revoked, disabled, _ = (make_caller(*SCOPES) for _ in range(3))
    database.transaction(revoke_token, revoked.token_id)
    database.transaction(disable_user, disabled.user_id)
    tokens = [
        None,
        "Bearer",
        "Bearer ",
        "Bearer skm_wrong",
        f"Basic {expired.secret}",
        *(f"Bearer {caller.secret}" for caller in (expired, revoked, disabled)),
    ]
    for method, path, _ in _guarded(app):
        assert [_status(app, method, path, token) for token in tokens] == [401] * len(tokens), (method, path)


def test_a_scope_opens_what_declares_it_and_nothing_else(app, make_caller):
    callers = {scope: f"Bearer {make_caller(scope).secret}" for scope in SCOPES}
    for method, path, access in _guarded(app):
        for scope, token in callers.items():
            allowed = access == "any token" or scope in (access, "admin")
            status = _status(app, method, path, token)
            assert (status not in (401, 403)) == allowed, (method, path, scope, status)


def test_a_view_without_access_cannot_be_served():
    app = GuardedFlask("bare", static_folder=None)
    with pytest.raises(TypeError, match="declares no access"):
        app.add_url_rule("/open", "open", lambda: "come in")
    assert [rule.rule for rule in app.url_map.iter_rules()] == []


def test_an_unknown_access_lets_nobody_in(app, admin):
    app.view_functions["get_me"].access = "everybody"
    assert admin.get("/me").status_code == 403


def test_a_token_is_looked_up_once_in_a_while(database, make_caller):
    caller = make_caller("jobs:read")
    cache = TokenCache(database, seconds=0.05)
    assert cache.principal(caller.secret) is not None
    database.transaction(revoke_token, caller.token_id)
    deadline = time.monotonic() + 5
    while cache.principal(caller.secret) is not None:
        assert time.monotonic() < deadline
    assert cache.principal(caller.secret) is None


def test_metrics_can_be_closed(make_app, make_caller):
    app = make_app(public_metrics=False)
    assert _status(app, "GET", "/metrics", None) == 401
    assert _status(app, "GET", "/metrics", f"Bearer {make_caller('maps:read').secret}") == 403
    assert _status(app, "GET", "/metrics", f"Bearer {make_caller('jobs:read').secret}") == 200
