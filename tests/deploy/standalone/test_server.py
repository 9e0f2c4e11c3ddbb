from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from deploy.standalone.errors import FolderInUse, ServerFailed
from deploy.standalone.keeper import started
from deploy.standalone.locks import FileLock
from deploy.standalone.processes import Program

if TYPE_CHECKING:
    from deploy.standalone.server import Server

Run = Callable[..., subprocess.Popen[str]]
ComesTrue = Callable[..., bool]


def record_of(data_dir: Path) -> dict:
    return json.loads((data_dir / "server.json").read_text(encoding="utf-8"))


def keeper_of(server: Server) -> int:
    """The parent process of a server."""
    return psutil.Process(server.pid).ppid()


def test_data_and_address_outlast_a_restart(kind_by_source):
    kind = kind_by_source
    server = kind.make()
    server.start()
    assert server.is_running
    assert started(server.pid)
    assert not server.is_attached
    address, pid = server.url, server.pid
    kind.put(server, "one")

    server.start()
    assert server.pid == pid, "a second start of the same object changes nothing"

    server.stop()
    assert not server.is_running
    assert server.pid is None
    assert started(pid) is None
    assert not server.folder.exists()
    server.stop()

    server.start()
    assert (server.url, kind.get(server)) == (address, "one")

    server.stop()
    later = kind.make()
    later.start()
    assert (later.url, kind.get(later)) == (address, "one")


def test_nobody_else_can_reach_the_socket(kind):
    server = kind.make()
    server.start()
    assert server.folder.stat().st_mode & 0o077 == 0
    assert server.data_dir.stat().st_mode & 0o077 == 0


def test_killed_parent_leaves_nothing_behind(kind, run_owner: Run, comes_true: ComesTrue):
    server = kind.make()
    owner = run_owner(kind, server.data_dir)
    pid = int(owner.stdout.readline().split()[0])
    folder = Path(record_of(server.data_dir)["folder"])
    assert started(pid)
    assert folder.exists()

    owner.kill()

    assert comes_true(lambda: started(pid) is None)
    with FileLock(server.data_dir / "lock") as lock:
        assert comes_true(lock.try_acquire), "the keeper has ended too"
    assert not folder.exists()


def test_start_while_the_server_of_a_killed_parent_ends(kind, run_owner: Run):
    server = kind.make()
    owner = run_owner(kind, server.data_dir)
    pid = int(owner.stdout.readline().split()[0])
    owner.kill()
    owner.wait()

    server.start()

    assert not server.is_attached
    assert server.pid != pid
    assert started(pid) is None


def test_killed_server_recovers(kind, comes_true: ComesTrue):
    server = kind.make()
    server.start()
    address = server.url
    kind.put(server, "one")
    os.kill(server.pid, signal.SIGKILL)
    assert comes_true(lambda: not server.is_running)
    server.start()

    assert (server.url, kind.get(server)) == (address, "one")


@pytest.mark.skipif("sys.platform != 'linux'", reason="the kernel's help is Linux's")
def test_killed_keeper_takes_the_server_with_it(kind, comes_true: ComesTrue):
    server = kind.make()
    server.start()
    pid = server.pid

    os.kill(keeper_of(server), signal.SIGKILL)

    assert comes_true(lambda: started(pid) is None)
    assert not server.is_running
    server.stop()
    assert not server.folder.exists()
    server.start()
    assert server.pid != pid


def test_attaches_to_the_server_of_another_process(kind, run_owner: Run, comes_true: ComesTrue):
    server = kind.make()
    owner = run_owner(kind, server.data_dir)
    pid = int(owner.stdout.readline().split()[0])

    server.start()
    assert server.is_attached
    assert server.pid == pid
    kind.put(server, "one")

    server.stop()
    assert not server.is_running
    assert started(pid), "an attached server is not stopped"

    server.start()
    assert server.is_attached
    owner.communicate("stop\n")
    assert comes_true(lambda: not server.is_running)
    server.start()
    assert not server.is_attached
    assert kind.get(server) == "one"


def test_of_two_starts_at_once_one_attaches(kind, run_owner: Run):
    server = kind.make()
    owners = [run_owner(kind, server.data_dir) for _ in range(2)]
    answers = [owner.stdout.readline().split() for owner in owners]
    assert answers[0][0] == answers[1][0]
    assert sorted(answer[1] for answer in answers) == ["False", "True"]


def test_held_folder_names_the_holder(kind, comes_true: ComesTrue):
    server = kind.make()
    server.data_dir.mkdir(parents=True, exist_ok=True)
    server.start_seconds = 0.2
    with FileLock(server.data_dir / "lock") as lock:
        assert comes_true(lock.try_acquire)
        with pytest.raises(FolderInUse, match=f"process {os.getpid()} holds"):
            server.start()


def test_stale_record_of_another_process_is_left_alone(kind, run_python: Run):
    """After a crash the old server's id may belong to anybody."""
    other = run_python("input()")
    server = kind.make()
    server.start()
    server.stop()
    record = {
        "pid": other.pid,
        "started": "another time",
        "owner": other.pid,
        "owner_started": "another time",
        "folder": "/tmp/skipmap-gone",
    }
    (server.data_dir / "server.json").write_text(json.dumps(record), encoding="utf-8")
    if kind.name == "postgres":
        pid_file = server.cluster / "postmaster.pid"
        pid_file.write_text(
            f"{other.pid}\n{server.cluster}\n1\n5432\n/tmp\n\n 1 1\nready\n", encoding="utf-8"
        )

    server.start()

    assert server.is_running
    assert not server.is_attached
    assert other.poll() is None


def test_orphan_without_keeper_is_stopped(kind, home: Path, comes_true: ComesTrue):
    """Where the kernel does not help, a killed keeper leaves a server; the next start takes the folder from it."""
    server = kind.make()
    server.start()
    pid, keeper = server.pid, keeper_of(server)
    # The server cannot act on the kernel's signal.
    os.kill(pid, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    assert comes_true(lambda: not server.is_running)
    assert started(pid)
    threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()

    later = kind.make()
    later.start()

    assert started(pid) is None
    assert later.is_running


def test_failure_shows_the_end_of_the_log(kind):
    server = kind.make()
    if kind.name == "postgres":
        server.settings["shared_buffers"] = "much"
        complaint = 'invalid value for parameter "shared_buffers": "much"'
    else:
        data = server.data_dir / "data"
        data.mkdir(parents=True)
        (data / "appendonlydir").write_text("in the way", encoding="utf-8")
        complaint = "appendonlydir"
    with pytest.raises(ServerFailed) as caught:
        server.start()
    assert f"{server.name} on {server.data_dir} ended with exit code 1" in str(caught.value)
    assert complaint in str(caught.value)
    assert str(server.log.path) in str(caught.value)
    assert not server.is_running
    with FileLock(server.data_dir / "lock") as lock:
        assert lock.try_acquire()


def test_program_that_never_answers(kind, monkeypatch: pytest.MonkeyPatch):
    server = kind.make()
    server.start()
    server.stop()
    server.start_seconds = 0.5
    monkeypatch.setattr(server, "_program", lambda folder: Program(("/bin/sleep", "60"), server.stop_steps))
    with pytest.raises(ServerFailed, match="took too long to start"):
        server.start()
    assert not server.folder.exists()


def test_log_holds_no_secrets_of_the_environment(kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPMAP_TOKEN", "hush")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    server = kind.make()
    server.start()
    seen = Path(f"/proc/{server.pid}/environ")
    if seen.exists():
        assert b"hush" not in seen.read_bytes()
    kind.put(server, "one")


def test_the_context_stops_the_server(kind):
    with kind.make() as server:
        pid = server.pid
    assert started(pid) is None


def test_address_before_the_first_start(kind):
    with pytest.raises(ServerFailed, match="has not been started"):
        _ = kind.make().url
