"""Somebody at the door: a user with a password, tokens, and the form to sign in."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from models.accounts import create_token, create_user
from models.passwords import hash_password, set_password
from tests.web.site import Page, Site
from web.guard import CSRF_FIELD

PASSWORD = "correct horse battery"


@pytest.fixture
def ada(database):
    """A user with a password; another administrator is there, too."""

    def work(session: Any) -> str:
        create_user(session, "the other admin", role="admin")
        user = create_user(session, "ada", role="editor")
        session.flush()
        set_password(session, user.id, hash_password("ada", PASSWORD))
        return user.id

    return database.transaction(work)


@pytest.fixture
def make_token(database):
    def make(user_id: str, *scopes: str, **options: Any) -> tuple[str, str]:
        token, secret = database.transaction(
            create_token, user_id, "a token", scopes or ("jobs:read",), **options
        )
        return token.id, secret

    return make


@pytest.fixture
def _one_minute(monkeypatch):
    """A minute that does not end in the middle of the test."""
    monkeypatch.setattr("api.counters.time", SimpleNamespace(time=lambda: 1e9, monotonic=time.monotonic))


def attempt(site: Site, **fields: Any) -> Page:
    """Open the page and send its form."""
    token = str(site.page("/sign-in").all(f'input[name="{CSRF_FIELD}"]')[0]["value"])
    return Page(site.client.post("/sign-in", data={CSRF_FIELD: token, "way": "password", **fields}))


def enter(site: Site, name: str = "ada", password: str = PASSWORD, **more: Any) -> Page:
    return attempt(site, name=name, password=password, **more)


def is_in(site: Site) -> bool:
    return site.get("/account").status_code == 200


def audit(bench) -> list[tuple[str, str, str]]:
    return bench.sql("SELECT actor, action, subject FROM audit ORDER BY id")


def csrf_of(site: Site) -> str:
    return str(site.page("/account").all(f'input[name="{CSRF_FIELD}"]')[0]["value"])
