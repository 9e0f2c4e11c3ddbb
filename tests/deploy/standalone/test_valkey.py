from __future__ import annotations

import socket
from pathlib import Path

import pytest

from deploy.standalone.valkey import ValkeyServer


@pytest.fixture
def server(valkey_kind) -> ValkeyServer:
    return valkey_kind.make()


def ask(server: ValkeyServer, *words: str) -> list[str]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.client_url.removeprefix("unix://"))
        connection.settimeout(5)
        connection.sendall(f"{' '.join(words)}\r\n".encode())
        return connection.recv(10_000).decode().split()


def test_settings(server: ValkeyServer):
    server.start()
    wanted = {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    assert {name: ask(server, "CONFIG", "GET", name)[-1] for name in wanted} == wanted


def test_lives_in_its_folder(server: ValkeyServer):
    server.start()
    ask(server, "SET", "a", "1")
    assert {path.name for path in server.data_dir.iterdir()} == {"data", "lock", "log.txt", "server.json"}
    assert any((server.data_dir / "data").rglob("*.aof*"))


def test_two_addresses_of_one_socket(server: ValkeyServer):
    server.start()
    path = server.url.removeprefix("redis+socket://")
    assert server.client_url == f"unix://{path}"
    assert Path(path).is_socket()


def test_unreadable_data_is_set_aside(server: ValkeyServer):
    server.start()
    ask(server, "SET", "a", "1")
    server.stop()
    for part in (server.data_dir / "data").rglob("*.base.rdb"):
        part.write_bytes(b"written by a server of the future")

    server.start()

    assert ask(server, "GET", "a") == ["$-1"]
    assert any((server.data_dir / "data.unreadable").rglob("*.base.rdb"))


def test_cut_off_data_loads(server: ValkeyServer):
    server.start()
    ask(server, "SET", "a", "1")
    ask(server, "SET", "b", "2")
    server.stop()
    (part,) = (server.data_dir / "data").rglob("*.incr.aof")
    part.write_bytes(part.read_bytes()[:-4])

    server.start()

    assert ask(server, "GET", "a")[-1] == "1"
