from __future__ import annotations

import pytest

from models.settings import read_settings
from skipmap.errors import InvalidInput


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_common_forms_of_the_address_get_the_driver(scheme):
    settings = read_settings(database_url=f"{scheme}://me@host/db")
    assert settings.database_url == "postgresql+psycopg://me@host/db"


@pytest.mark.parametrize(
    "url", ["mysql://u:secret@host/db", "postgresql+asyncpg://u:secret@h/d", "no address"]
)
def test_another_database_is_refused_without_showing_the_password(url):
    with pytest.raises(InvalidInput, match="SKIPMAP_DATABASE_URL") as caught:
        read_settings(database_url=url)
    assert "secret" not in str(caught.value)


def test_missing_address_names_the_variable(monkeypatch):
    monkeypatch.delenv("SKIPMAP_DATABASE_URL", raising=False)
    with pytest.raises(InvalidInput, match="SKIPMAP_DATABASE_URL: required"):
        read_settings()


def test_a_lease_must_outlive_four_heartbeats(monkeypatch):
    monkeypatch.setenv("SKIPMAP_DATABASE_URL", "postgresql://h/d")
    monkeypatch.setenv("SKIPMAP_LEASE_SECONDS", "10")
    monkeypatch.setenv("SKIPMAP_HEARTBEAT_SECONDS", "2.5")
    assert read_settings().lease_seconds == 10
    monkeypatch.setenv("SKIPMAP_HEARTBEAT_SECONDS", "2.6")
    with pytest.raises(InvalidInput, match="SKIPMAP_HEARTBEAT_SECONDS"):
        read_settings()


def test_addresses_do_not_show_in_the_settings_text():
    settings = read_settings(database_url="postgresql://u:secret@h/d", broker_url="redis://:secret@h")
    assert "secret" not in repr(settings)
