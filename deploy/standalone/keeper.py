"""Runs one server and stops it when asked or when the process that wants it is gone.

A killed process cannot stop its servers, so each server gets this small process as its parent. It is run by path in
an isolated interpreter, hence the standard library only. On Linux the kernel also ends the server if the keeper
itself is killed; elsewhere the next start does.

The keeper only ever signals its own child, whose process id cannot have gone to somebody else, and the process group
that this child led. A second SIGTERM makes it hurry: SIGKILL follows at once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARENT_CHECK_SECONDS = 0.2
DATA_PLACEHOLDER = "{data}"
PR_SET_PDEATHSIG = 1
NOT_RUN = 127


def started(pid: int) -> str | None:
    """When a process started, as text that tells it from a later one with the same id; None if it has ended."""
    if pid <= 0:
        return None
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            return None
        # The name, in parentheses, may itself hold spaces and parentheses.
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    listed = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, when = listed.stdout.strip().partition(" ")
    return None if state.startswith("Z") else when.strip() or None


def main(order: dict[str, Any]) -> int:
    """Run a command to its end; returns its exit code, 128 + signal if one ended it."""
    wake = _Wake()
    try:
        child = _spawn(order)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{order['command'][0]} cannot be run: {error}", file=sys.stderr)
        return NOT_RUN
    try:
        if order["record"]:
            _write_record(Path(order["record"]), child.pid, order)
        while child.poll() is None and not wake.stop_asked and os.getppid() == order["parent"]:
            wake.wait(PARENT_CHECK_SECONDS)
    finally:
        _stop(child, order, wake)
        if order["folder"]:
            remove_folder(order["folder"])
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


class _Wake:
    """A sleep that ends early when the child ends or a stop is asked for."""

    def __init__(self) -> None:
        self.stop_asked = False
        self.hurry_asked = False
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._ask)
        # Handlers, unlike ignored signals, are not passed on to the server.
        for unheeded in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(unheeded, lambda *_: None)

    def _ask(self, *_: object) -> None:
        self.hurry_asked = self.stop_asked
        self.stop_asked = True

    def wait(self, seconds: float) -> None:
        select.select([self._read], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 512)


def _spawn(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    place, user = order["data"], order["user"]
    passed: list[int] = []
    if place and user and sys.platform == "linux":
        # The user need not be able to walk the path to the folder: an open descriptor leads there too.
        passed.append(os.open(place, os.O_PATH | os.O_DIRECTORY))
        place = f"/proc/self/fd/{passed[0]}"
    command = [part.replace(DATA_PLACEHOLDER, place) if place else part for part in order["command"]]
    rights = {"user": user[0], "group": user[1], "extra_groups": ()} if user else {}
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        pass_fds=passed,
        preexec_fn=_die_with_keeper(order["stop_steps"][0][0]),
        process_group=0 if order["group"] else None,
        **rights,
    )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
        stdin.write(order["input"].encode())
    return child


def _die_with_keeper(number: int) -> Callable[[], None] | None:
    """What the child does before it becomes the server: ask the kernel for a signal at the keeper's death."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, keeper = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    return ask


def _stop(child: subprocess.Popen[bytes], order: dict[str, Any], wake: _Wake) -> None:
    """Take the steps, fewer when hurried; nothing that the program has started is left running."""
    limit = math.inf
    for number, seconds in order["stop_steps"]:
        child.send_signal(number)
        deadline = time.monotonic() + seconds
        while child.poll() is None and not wake.hurry_asked:
            if math.isinf(limit) and os.getppid() != order["parent"]:
                limit = time.monotonic() + order["orphan_seconds"]
            left = min(deadline, limit) - time.monotonic()
            if left <= 0:
                break
            wake.wait(min(left, PARENT_CHECK_SECONDS))
    child.kill()
    child.wait()
    if order["group"]:
        # It can hold processes that the program had no time to end.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _write_record(path: Path, pid: int, order: dict[str, Any]) -> None:
    record = {
        "pid": pid,
        "started": started(pid),
        "owner": order["parent"],
        "owner_started": started(order["parent"]),
        "folder": order["folder"],
    }
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(record), encoding="utf-8")
    part.replace(path)


def remove_folder(path: str) -> None:
    """Remove a folder of sockets; should another process have put a link in its place, nothing is removed."""
    with contextlib.suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in os.listdir(folder):
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
        os.rmdir(path)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
