from __future__ import annotations

import socket

import pytest

from deploy.standalone.ports import DEFAULT_PORT, take_port, url_of, wanted_port
from skipmap.errors import InvalidInput


def test_wanted_port(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SKIPMAP_PORT", raising=False)
    assert wanted_port() == DEFAULT_PORT
    monkeypatch.setenv("SKIPMAP_PORT", "0")
    assert wanted_port() == 0


@pytest.mark.parametrize("given", ["70000", "-1", "http"])
def test_impossible_port(monkeypatch: pytest.MonkeyPatch, given: str):
    monkeypatch.setenv("SKIPMAP_PORT", given)
    with pytest.raises(InvalidInput, match=f"SKIPMAP_PORT: '{given}' given; allowed are 0 to 65535"):
        wanted_port()


def test_taken_port_is_named_and_any_free_one_is_found():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"SKIPMAP_PORT: port {port} of 127.0.0.1 is in use"):
            take_port(port)
        free = take_port(0)
        assert free not in (0, port)
    assert url_of(take_port(free)) == f"http://127.0.0.1:{free}"
