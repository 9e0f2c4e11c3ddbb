from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from deploy.standalone.console import short
from deploy.standalone.postgres import PostgresServer
from tests.deploy.standalone.managers import Managed, make_managed, managed, wait_for

__all__ = ["make_managed", "managed"]


def test_starts_says_where_and_stops_in_order(managed: Managed):
    process = managed.up()
    managed.ready(process)
    token = (managed.home / "admin-token").read_text().strip()
    with urllib.request.urlopen(managed.url + "/readyz") as answer:
        assert answer.status == 200
    assert "a line of worker" in (managed.home / "logs" / "worker.log").read_text()

    process.send_signal(signal.SIGINT)

    assert process.wait(30) == 0
    stops = [line for line in managed.happened if line.endswith("stops")]
    assert stops == ["api stops", "worker stops", "reconciler stops"]
    assert token not in managed.said
    for said in (
        "Admin token made",
        "Skipmap is ready: http://127.0.0.1:",
        "admin-token",
        "logs",
        "jobs submit",
        "it drains",
    ):
        assert said in managed.said
    assert managed.said.endswith("Stopped\n")
    assert managed.left_over == []
    assert not (managed.home / "manager").exists()


def test_what_dies_is_started_again(managed: Managed):
    process = managed.up()
    managed.ready(process)
    old = managed.pid("worker")

    os.kill(old, signal.SIGKILL)

    wait_for(lambda: managed.happened.count("worker starts") == 2, "a second start")
    assert managed.pid("worker") != old
    wait_for(lambda: "worker was started again" in managed.said, "the manager says so")
    assert "worker was ended by signal 9" in managed.said
    assert "worker.log" in managed.said
    assert managed.happened.count("api starts") == 1


def test_what_never_starts_is_an_error(managed: Managed):
    managed.touch("worker.fails")
    process = managed.up()
    assert process.wait(30) == 5
    assert managed.happened.count("worker starts") == 3
    assert "worker does not start" in managed.said
    assert "it fails" in managed.said
    assert {"api stops", "reconciler stops"} <= set(managed.happened)
    assert managed.left_over == []


def test_second_start_is_refused(managed: Managed):
    process = managed.up()
    managed.ready(process)
    second = managed.run("up")
    assert second.returncode == 4
    assert f"process {process.pid}, {managed.url}" in second.stderr
    assert "make down" in second.stderr
    assert process.poll() is None
    assert managed.happened.count("api starts") == 1


def test_second_interrupt_does_not_wait(managed: Managed):
    managed.touch("worker.stubborn")
    process = managed.up()
    managed.ready(process)
    wait_for((managed.folder / "worker.helper").exists, "the helper runs")
    process.send_signal(signal.SIGTERM)
    wait_for(lambda: "worker: it drains" in managed.said, "the worker is asked first")
    assert process.poll() is None

    process.send_signal(signal.SIGTERM)

    assert process.wait(4) == 0, "before the worker's five seconds are over"
    assert "worker stops" not in managed.happened
    assert managed.happened[-1] == "reconciler stops"
    helper = int((managed.folder / "worker.helper").read_text())
    wait_for(lambda: not _runs(helper), "what the worker has started ends with it")


def test_killed_manager_leaves_nothing(managed: Managed):
    managed.touch("reconciler.stubborn")
    process = managed.up()
    managed.ready(process)
    pids = [managed.pid(name) for name in ("api", "worker", "reconciler")]

    process.kill()
    process.wait()

    later = managed.up()
    wait_for(lambda: "Waiting for the end of the last Skipmap" in managed.said, "the next start waits")
    managed.ready(later)
    assert not any(_runs(pid) for pid in pids)
    assert managed.happened.count("api starts") == 2


def test_killed_keeper_is_noticed(managed: Managed):
    process = managed.up()
    managed.ready(process)
    old = managed.pid("api")
    psutil.Process(old).parent().kill()
    wait_for(lambda: managed.happened.count("api starts") == 2, "a second start")
    wait_for(lambda: not _runs(old), "the old one ends")


def test_down_and_status(managed: Managed):
    nothing = managed.run("status"), managed.run("down")
    assert [ended.returncode for ended in nothing] == [3, 0]
    assert all("does not run on" in ended.stdout for ended in nothing)
    process = managed.up()
    managed.ready(process)

    status = managed.run("status")
    assert status.returncode == 0
    assert f"{managed.url}, ready" in status.stdout
    assert f"worker      process {managed.pid('worker')}" in status.stdout

    down = managed.run("down")
    assert down.returncode == 0, down
    assert process.wait(1) == 0, "down returns when all has ended"
    assert managed.left_over == []


def test_data_of_an_unfinished_version_is_refused(make_managed: Callable[..., Managed], home: Path):
    managed = make_managed()
    with (
        PostgresServer(home / "postgres", durable=False) as server,
        psycopg.connect(server.url.replace("+psycopg", "")) as connection,
    ):
        connection.execute("CREATE TABLE jobs (id int)")
    ended = managed.run("up")
    assert ended.returncode == 5
    assert 'relation "jobs" already exists' in ended.stderr
    assert f"start with an empty database (move {short(home / 'postgres')} away)" in ended.stderr
    assert managed.left_over == []


def test_port_in_use_stops_before_anything_starts(make_managed: Callable[..., Managed], home: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = make_managed(SKIPMAP_PORT=str(port)).run("up")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"SKIPMAP_PORT: port {port} of 127.0.0.1 is in use")
    assert [path.name for path in home.iterdir()] == ["stack.lock"]


def test_token_is_made_once_and_shown_on_a_terminal_only(managed: Managed):
    file = managed.home / "admin-token"
    master, terminal = os.openpty()
    first = managed.up(terminal=terminal)
    managed.ready(first)
    shown = os.read(master, 100_000).decode()
    first.terminate()
    assert first.wait(30) == 0
    os.close(terminal)
    os.close(master)
    token = file.read_text().strip()
    assert f"shown this once and kept in '{file}': {token}" in shown.replace("\r\n", "")
    assert file.stat().st_mode & 0o777 == 0o600

    second = managed.up()
    managed.ready(second)
    assert file.read_text().strip() == token
    assert "Admin token" not in managed.said


def test_own_servers_outlive_no_manager(
    make_managed: Callable[..., Managed], comes_true: Callable[..., bool]
):
    managed = make_managed()
    first = managed.up()
    managed.ready(first)
    os.kill(_server(managed, "valkey"), signal.SIGKILL)
    wait_for(lambda: "Valkey was started again" in managed.said, "a server that dies is started again")
    servers = [_server(managed, name) for name in ("postgres", "valkey")]
    sockets = [_sockets(managed, name) for name in ("postgres", "valkey")]

    first.kill()

    assert comes_true(lambda: managed.left_over == [])
    assert not any(map(_runs, servers))
    assert not any(folder.exists() for folder in sockets)
    second = managed.up()
    managed.ready(second)
    assert managed.said.count("Admin token made") == 1
    second.terminate()
    assert second.wait(30) == 0
    assert not any(_sockets(managed, name).exists() for name in ("postgres", "valkey"))
    assert managed.left_over == []


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _record(managed: Managed, name: str) -> dict[str, object]:
    return json.loads((managed.home / name / "server.json").read_text())


def _server(managed: Managed, name: str) -> int:
    return int(str(_record(managed, name)["pid"]))


def _sockets(managed: Managed, name: str) -> Path:
    return Path(str(_record(managed, name)["folder"]))


@pytest.fixture(autouse=True)
def _bounded(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.timeout(150))
