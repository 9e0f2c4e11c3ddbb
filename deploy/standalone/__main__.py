"""``python -m deploy.standalone up|down|status``: Skipmap on this machine, on the folder SKIPMAP_HOME."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from deploy.standalone.console import Console, short
from deploy.standalone.errors import StandaloneError
from deploy.standalone.locks import FileLock
from deploy.standalone.ports import wanted_port
from deploy.standalone.running import RunFolder, pid_in
from deploy.standalone.signals import StopRequest
from skipmap.errors import SkipmapError
from skipmap.settings import get_settings

NOT_RUNNING = 3
DOWN_SECONDS = 150.0
"""More than all the steps of an orderly stop together."""
POLL_SECONDS = 0.1


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code: 0, 2 bad setting, 3 not running, 4 runs already, 5 a part failed."""
    parser = argparse.ArgumentParser(prog="python -m deploy.standalone", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start everything and follow it until Ctrl-C")
    commands.add_parser("down", help="stop what 'up' started, from another terminal")
    commands.add_parser("status", help="say what runs")
    command = parser.parse_args(arguments).command
    console = Console()
    try:
        home = get_settings().home
        if command == "up":
            return _up(home, console)
        return _down(home, console) if command == "down" else _status(home, console)
    except SkipmapError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _up(home: Path, console: Console) -> int:
    # Only a start needs the storage layer.
    from deploy.standalone.stack import Stack

    port = wanted_port()
    with StopRequest() as stop:
        Stack(home, port, console=console, stop=stop).run()
    return 0


def _down(home: Path, console: Console) -> int:
    manager = RunFolder(home).manager()
    if manager is None and _is_free(home):
        console.say(f"Skipmap does not run on {short(home)}")
        return 0
    if manager is not None:
        console.say(f"Stopping Skipmap on {short(home)} (process {manager.pid})")
        with suppress(ProcessLookupError):
            os.kill(manager.pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while not _is_free(home):
        if time.monotonic() > deadline:
            raise StandaloneError(
                f"Skipmap on {short(home)} still runs after {DOWN_SECONDS:.0f} s; see {short(home / 'logs')}"
            )
        time.sleep(POLL_SECONDS)
    console.say("Stopped")
    return 0


def _status(home: Path, console: Console) -> int:
    from deploy.standalone.readiness import ask_ready, missing

    run = RunFolder(home)
    manager = run.manager()
    if manager is None:
        console.say(f"Skipmap does not run on {short(home)}")
        return NOT_RUNNING
    problems = missing(ask_ready(manager.url))
    console.say(f"Skipmap runs on {short(home)}: {manager.url}, {', '.join(problems) or 'ready'}")
    places = {
        "postgres": home / "postgres" / "server.json",
        "valkey": home / "valkey" / "server.json",
        **{name: run.record(name) for name in ("api", "worker", "reconciler")},
    }
    console.say(f"  {'manager':<11} process {manager.pid}")
    for name, place in places.items():
        pid = pid_in(place)
        console.say(f"  {name:<11} {'not ours, or not running' if pid is None else f'process {pid}'}")
    return 0


def _is_free(home: Path) -> bool:
    """Whether neither a manager nor a process that one left behind is there."""
    if not home.is_dir():
        return True
    with FileLock(home / "stack.lock") as lock:
        return lock.try_acquire()


if __name__ == "__main__":
    sys.exit(main())
