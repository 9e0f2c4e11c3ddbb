"""The app on a database of the session's server, with callers that hold tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api.app import create_app
from api.settings import ApiSettings
from models.accounts import SCOPES, create_token, create_user
from models.database import Database
from models.settings import ServiceSettings
from skipmap.maps.keys import DEFAULT_KEY_FILE, SigningKeys, new_key_file
from skipmap.settings import Settings
from tests.api.published import Shop
from tests.models.bench import Bench

V1 = "/api/v1"


@dataclass
class Caller:
    """A client with a token; addresses are those below the prefix unless they begin with ``//``."""

    client: FlaskClient
    secret: str
    user_id: str
    token_id: str

    def send(self, method: str, path: str, **more: Any) -> TestResponse:
        headers = {"Authorization": f"Bearer {self.secret}", **more.pop("headers", {})}
        return self.client.open(V1 + path, method=method, headers=headers, **more)

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.send("GET", path, **more)

    def post(self, path: str, **more: Any) -> TestResponse:
        return self.send("POST", path, **more)

    def patch(self, path: str, **more: Any) -> TestResponse:
        return self.send("PATCH", path, **more)

    def delete(self, path: str, **more: Any) -> TestResponse:
        return self.send("DELETE", path, **more)

    def upload(self, content: bytes | str, name: str = "a set", **more: Any) -> TestResponse:
        more = {"content_type": "application/x-ndjson", **more}
        return self.post("/calibration-sets", data=content, query_string={"name": name}, **more)


@pytest.fixture
def bench(database: Database, settings: ServiceSettings) -> Bench:
    """Fake workers that bring jobs on."""
    return Bench(database, settings)


@pytest.fixture
def make_app(settings: ServiceSettings, tmp_path) -> Iterator[Callable[..., Flask]]:
    """Make an app on this test's database; settings of the API by name."""
    made: list[Flask] = []

    def make(stored: dict[str, Any] | None = None, roots: tuple = (), **given: Any) -> Flask:
        api_settings = ApiSettings(
            **{"api_pool_size": 2, "event_poll_seconds": 0.02, "channel_poll_seconds": 0.02, **given}
        )
        library = Settings(home=tmp_path / "home", model_roots=roots)
        made.append(create_app(settings.model_copy(update=stored or {}), api_settings, library))
        return made[-1]

    yield make
    for app in made:
        service = app.extensions["skipmap"]
        service.hub.stopping = service.channels.stopping = lambda: True
        wait_for_hub()
        service.database.close()
        service.reports.close()
        service.broker.close()


def wait_for_hub() -> None:
    """What a thread of the service reads or writes would come back to a pool that is closed."""
    for thread in threading.enumerate():
        if thread.name in ("events", "channels", "uses"):
            thread.join(10)


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture
def make_caller(app: Flask, database: Database) -> Callable[..., Caller]:
    """Make a user with a token of some scopes."""
    count = iter(range(1000))

    def make(*scopes: str, app: Flask = app, **options: Any) -> Caller:
        def work(session):
            user = create_user(session, f"user {next(count)}")
            token, secret = create_token(session, user.id, "a token", scopes, **options)
            return user.id, token.id, secret

        user_id, token_id, secret = database.transaction(work)
        return Caller(app.test_client(), secret, user_id, token_id)

    return make


@pytest.fixture
def caller(make_caller: Callable[..., Caller]) -> Caller:
    """Somebody who may read and write jobs."""
    return make_caller("jobs:read", "jobs:write")


@pytest.fixture
def admin(make_caller: Callable[..., Caller]) -> Caller:
    assert "admin" in SCOPES
    return make_caller("admin")


@pytest.fixture
def keys(tmp_path) -> SigningKeys:
    """The keys of the app; their file is where it looks for it."""
    return new_key_file(tmp_path / "home" / DEFAULT_KEY_FILE)


@pytest.fixture
def shop(bench: Bench, make_caller: Callable[..., Caller], keys: SigningKeys) -> Shop:
    """Somebody who publishes finished jobs, and moves channels."""
    return Shop(bench, make_caller("maps:read", "maps:publish"), keys)


@pytest.fixture
def make_spec() -> Callable[..., dict[str, Any]]:
    """A job spec that the service takes; sections are merged into it."""

    def make(**sections: Any) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "target": {"id": "smollm2-135m-instruct"},
            "draft": {"method": "prompt_lookup"},
            "domain": {"name": "qa"},
            "calibration": {"source": "sample:qa"},
            "search": {"max_depth": 2, "max_pool": 4, "group_size": 2},
        }
        for name, section in sections.items():
            spec[name] = {**spec.get(name, {}), **section} if isinstance(section, dict) else section
        return spec

    return make
