from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from deploy.standalone.keeper import NOT_RUN, started
from deploy.standalone.locks import FileLock
from deploy.standalone.processes import LOG_LIMIT_BYTES, LOG_TAIL_LINES, KeptProcess, LogFile, Program

SLEEP = ("/bin/sh", "-c", "echo up; exec sleep 60")
STUBBORN = ("/bin/sh", "-c", "trap 'echo no' TERM INT; echo up; while :; do sleep 0.05; done")


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[FileLock]:
    with FileLock(tmp_path / "lock") as lock:
        lock.acquire("free")
        yield lock


@pytest.fixture
def keep(tmp_path: Path, lock: FileLock, comes_true) -> Iterator[Callable[..., KeptProcess]]:
    """Runs a command under a keeper; waits for it to say that it is up."""
    kept: list[KeptProcess] = []
    log = tmp_path / "log é.txt"

    def run(command: tuple[str, ...], *steps: tuple[signal.Signals, float], wait: bool = True) -> KeptProcess:
        program = Program(command, steps or ((signal.SIGTERM, 5.0),), input="a line\n")
        process = KeptProcess(program, log=log, lock=lock)
        kept.append(process)
        assert not wait or comes_true(lambda: "up" in log.read_text())
        return process

    yield run
    for process in kept:
        process.stop()


@pytest.fixture
def children() -> Callable[[], list[psutil.Process]]:
    """Each keeper of this test, followed by what it runs; other tests' servers may run beside them."""
    before = {child.pid for child in psutil.Process().children()}

    def ours() -> list[psutil.Process]:
        keepers = [child for child in psutil.Process().children() if child.pid not in before]
        return [process for keeper in keepers for process in (keeper, *keeper.children(recursive=True))]

    return ours


@pytest.mark.parametrize(
    ("command", "code"), [("exit 7", 7), ("kill -9 $$", 128 + 9), ("read x; test \"$x\" = 'a line'", 0)]
)
def test_exit_code_and_input(keep, command: str, code: int):
    assert keep(("/bin/sh", "-c", command), wait=False).wait(10) == code


def test_program_that_is_not_there(keep, tmp_path: Path):
    assert keep(("/no/such/program",), wait=False).wait(10) == NOT_RUN
    (line,) = (tmp_path / "log é.txt").read_text().splitlines()
    assert line.startswith("/no/such/program cannot be run: ")


def test_stop_goes_on_to_the_next_signal(keep, children):
    process = keep(STUBBORN, (signal.SIGTERM, 0.2), (signal.SIGINT, 0.2))
    ours = children()
    process.stop()
    assert process.poll() == 128 + signal.SIGKILL
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in ours)


def test_ctrl_c_in_the_terminal_is_not_for_servers(keep, children):
    process = keep(SLEEP)
    keeper = children()[0]
    assert os.getpgid(keeper.pid) != os.getpgid(0)
    keeper.send_signal(signal.SIGINT)
    keeper.send_signal(signal.SIGHUP)
    assert process.wait(0.5) is None


@pytest.mark.skipif("sys.platform != 'linux'", reason="the kernel's help is Linux's")
def test_killed_keeper(keep, children, comes_true):
    process = keep(SLEEP)
    keeper, sleeper = children()
    os.kill(keeper.pid, signal.SIGKILL)
    assert comes_true(lambda: started(sleeper.pid) is None)
    assert process.wait(5) is not None


def test_starting_thread_may_end(keep):
    """The kernel ties such a signal to the thread that made the child, which is the keeper's only one."""
    processes: list[KeptProcess] = []
    thread = threading.Thread(target=lambda: processes.append(keep(SLEEP)))
    thread.start()
    thread.join()
    assert processes[0].wait(0.5) is None


def test_log_tail_is_of_this_start(tmp_path: Path):
    log = LogFile(tmp_path / "log.txt")
    assert log.tail() == ""
    log.path.write_text("old\n")
    log.begin()
    assert log.tail() == ""
    with log.path.open("ab") as file:
        file.write(b"\xff" + b"".join(b"%d\n" % number for number in range(100)))
    assert log.tail().splitlines()[-1] == "99"
    assert len(log.tail().splitlines()) == LOG_TAIL_LINES


def test_long_log_makes_room(tmp_path: Path):
    log = LogFile(tmp_path / "log.txt")
    log.path.write_bytes(b"x" * (LOG_LIMIT_BYTES + 1))
    log.begin()
    assert not log.path.exists()
    assert (tmp_path / "log.txt.1").stat().st_size > LOG_LIMIT_BYTES
    assert log.tail() == ""


def test_long_log_makes_room_while_a_program_writes(tmp_path: Path):
    log = LogFile(tmp_path / "log.txt")
    log.begin()
    with log.path.open("ab", buffering=0) as writer:
        writer.write(b"x" * LOG_LIMIT_BYTES)
        log.make_room()
        assert log.path.stat().st_size == LOG_LIMIT_BYTES
        writer.write(b"last\n")
        log.make_room()
        writer.write(b"first\n")
    assert log.tail() == "first"
    assert (tmp_path / "log.txt.1").read_bytes().endswith(b"xlast\n")
