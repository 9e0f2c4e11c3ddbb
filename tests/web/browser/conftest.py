"""Real browsers on real pages: a running stack for stories, and served databases for looks at every page."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser
from werkzeug.serving import WSGIRequestHandler, make_server

from api.service import NAME
from api.settings import ApiSettings
from models.database import Database
from models.sessions import open_session
from skipmap.maps.keys import DEFAULT_KEY_FILE, new_key_file
from skipmap.settings import Settings
from tests.api.conftest import wait_for_hub
from tests.postgres import make_settings
from tests.web.browser.stack import Stack, running
from tests.web.browser.visitor import Visitor
from tests.web.browser.words import Words
from tests.web.browser.world import Builder, World
from web.app import create_app
from web.guard import CSRF, SESSION
from web.settings import WebSettings


@dataclass(frozen=True)
class Served:
    """A filled database behind an address. ``cookie``: of its administrator, who is signed in."""

    url: str
    world: World
    cookie: str
    database: Database


@pytest.fixture(scope="session")
def stack(user_settings: Settings, smollm2_dir: Path) -> Iterator[Stack]:
    """Skipmap as ``make up`` runs it, and a node; its parts take long to start, so that all tests share it."""
    with running(user_settings.cache) as stack:
        yield stack


@pytest.fixture
def make_visitor(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Open a browser context at an address; in the end nothing must have gone wrong in any."""
    visitors: list[Visitor] = []

    def make(url: str, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, url, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.close()
    for visitor in visitors:
        visitor.check()


@contextmanager
def served(url: str, home: Path, words: Words) -> Iterator[Served]:
    """Fill the database at an address and serve it in threads of this process."""
    settings = make_settings(url)
    database = Database(settings)
    keys = new_key_file(home / DEFAULT_KEY_FILE)
    app = create_app(settings, ApiSettings(api_pool_size=5), Settings(home=home), WebSettings())
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    try:
        world = Builder(app, database, settings, keys, words).build()
        thread.start()
        yield Served(
            f"http://127.0.0.1:{server.port}", world, _cookie(app, database, world.user_id), database
        )
    finally:
        if thread.is_alive():
            server.shutdown()
            thread.join()
        server.server_close()
        service = app.extensions[NAME]
        service.hub.stopping = service.channels.stopping = lambda: True
        wait_for_hub()
        for part in (service.database, service.reports, service.broker, database):
            part.close()


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any) -> None:
        """Say nothing: requests are in the app's own log."""


def _cookie(app: Flask, database: Database, user_id: str) -> str:
    def work(session: Any) -> str:
        return open_session(session, user_id, lifetime_seconds=3600, address="127.0.0.1", agent="tests")[1]

    front = app.extensions["skipmap-pages"]
    serializer = front.session_interface.get_signing_serializer(front)
    cookie: str = serializer.dumps({SESSION: database.transaction(work), CSRF: secrets.token_urlsafe()})
    return cookie
