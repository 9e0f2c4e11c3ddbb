from __future__ import annotations

from pathlib import Path

import pytest

from deploy.standalone.postgres import PostgresServer
from deploy.standalone.servers import ExternalService, broker, database
from deploy.standalone.valkey import ValkeyServer


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SKIPMAP_DATABASE_URL", raising=False)
    monkeypatch.delenv("SKIPMAP_BROKER_URL", raising=False)


def test_servers_of_our_own_below_the_home(tmp_path: Path):
    own = database(tmp_path), broker(tmp_path)
    assert isinstance(own[0], PostgresServer)
    assert isinstance(own[1], ValkeyServer)
    assert [server.data_dir for server in own] == [tmp_path / "postgres", tmp_path / "valkey"]


def test_nothing_is_started_when_addresses_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPMAP_DATABASE_URL", "postgresql+psycopg://db.example/skipmap")
    monkeypatch.setenv("SKIPMAP_BROKER_URL", "redis://broker.example:6379/0")
    services = database(tmp_path), broker(tmp_path)
    assert services == (
        ExternalService("postgresql+psycopg://db.example/skipmap"),
        ExternalService("redis://broker.example:6379/0"),
    )
    for service in services:
        service.start()
        assert service.is_running
        service.stop()
    assert list(tmp_path.iterdir()) == []


def test_empty_addresses_count_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPMAP_DATABASE_URL", "")
    assert isinstance(database(tmp_path), PostgresServer)
