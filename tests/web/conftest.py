"""The pages on a database of the session's server, with people who are signed in."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from api.app import NAME
from api.settings import ApiSettings
from models.accounts import create_user
from models.database import Database
from models.roles import Role
from models.sessions import open_session
from models.settings import ServiceSettings
from skipmap.settings import Settings
from tests.api.conftest import admin, bench, keys, make_caller, make_spec, shop, wait_for_hub
from tests.web.site import Site, with_cookie
from web.app import create_app
from web.guard import CSRF, SESSION
from web.settings import WebSettings

__all__ = ["admin", "bench", "keys", "make_caller", "make_spec", "shop"]


@pytest.fixture
def make_app(settings: ServiceSettings, tmp_path) -> Iterator[Callable[..., Flask]]:
    """Make API and pages on this test's database; settings of the API by name, of the pages as ``web``."""
    made: list[Flask] = []

    def make(roots: tuple = (), web: dict[str, Any] | None = None, **given: Any) -> Flask:
        api_settings = ApiSettings(
            **{"api_pool_size": 2, "event_poll_seconds": 0.02, "channel_poll_seconds": 0.02, **given}
        )
        library = Settings(home=tmp_path / "home", model_roots=roots)
        made.append(create_app(settings, api_settings, library, WebSettings(**web or {})))
        return made[-1]

    yield make
    for app in made:
        service = app.extensions[NAME]
        service.hub.stopping = service.channels.stopping = lambda: True
        wait_for_hub()
        service.database.close()
        service.reports.close()
        service.broker.close()


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture
def visitor(app: Flask) -> Site:
    """Somebody who is not signed in."""
    return Site(app.test_client())


@pytest.fixture
def make_site(app: Flask, database: Database) -> Callable[..., Site]:
    """Somebody of a role who is signed in."""
    count = iter(range(1000))

    def make(role: Role = "admin", app: Flask = app) -> Site:
        def work(session: Any) -> tuple[str, str]:
            user = create_user(session, f"{role} {next(count)}", role=role)
            session.flush()
            _, secret = open_session(
                session, user.id, lifetime_seconds=3600, address="127.0.0.1", agent="tests"
            )
            return user.id, secret

        user_id, secret = database.transaction(work)
        return with_cookie(app, user_id, **{SESSION: secret, CSRF: secrets.token_urlsafe()})

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """An administrator who is signed in."""
    return make_site()
