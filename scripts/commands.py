"""What the steps of set-up share: running a command with its messages kept, one set-up at a time, small JSON files.

Uses the standard library only.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this script runs on whatever python3 the machine has
    sys.exit(
        f"Skipmap needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. "
        "Name a newer one, for example: make PYTHON=python3.12 setup"
    )

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = ROOT / ".setup"
LOG = STATE / "log.txt"

HEARTBEAT_SECONDS = 15
LOG_TAIL_LINES = 40


class SetupFailed(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def main_of(step: Callable[[], None]) -> int:
    """Run a step from the command line; returns the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        step()
    except (SetupFailed, OSError) as error:
        print(f"Set-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up interrupted; run it again to go on.", file=sys.stderr)
        return 130
    return 0


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def run(
    command: Sequence[str], hint: str = "", *, folder: Path = ROOT, variables: Mapping[str, str] | None = None
) -> str:
    """Run a command with its messages in the log, a heartbeat meanwhile; returns its standard output.

    Raises SetupFailed after showing the log's end when the command fails.
    """
    STATE.mkdir(exist_ok=True)
    with LOG.open("w", encoding="utf-8") as log, (STATE / "out.txt").open("w+", encoding="utf-8") as out:
        child = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            env={**environment(), **(variables or {})},
        )
        try:
            _await(child)
        except BaseException:
            child.terminate()
            child.wait()
            raise
        out.seek(0)
        output = out.read()
    if child.returncode:
        lines = (output + LOG.read_text(encoding="utf-8", errors="replace")).splitlines()
        print("\n".join(lines[-LOG_TAIL_LINES:]), file=sys.stderr)
        reason = f"this command failed with exit code {child.returncode}: {' '.join(command)}"
        raise SetupFailed(f"{reason}\n{hint}" if hint else reason)
    return output


def _await(child: subprocess.Popen[bytes]) -> None:
    start = time.monotonic()
    while True:
        try:
            child.wait(timeout=HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"  ... still at it after {time.monotonic() - start:.0f} s")
        else:
            return


def environment() -> dict[str, str]:
    """The caller's environment, without what would lead Python or pip past .venv."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PIP_USER": "0", "PYTHONUNBUFFERED": "1"}


def pip(arguments: Sequence[str]) -> None:
    """Install packages into .venv."""
    hint = "pip reports above what is missing; check the network and the free disk space"
    run([str(PYTHON), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *arguments], hint)


def pinned(package: str) -> str:
    """The package with the version that constraints.txt gives it."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{package}=="):
            return line.strip()
    raise SetupFailed(f"constraints.txt pins no {package}")


@contextmanager
def alone() -> Iterator[None]:
    """Wait for another set-up of this checkout to end."""
    try:
        STATE.mkdir(exist_ok=True)
        lock = (STATE / "lock").open("w")
    except OSError as error:
        raise SetupFailed(f"{STATE} cannot be written: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up is at work here; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty when there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write(path: Path, value: dict[str, Any]) -> None:
    """Put an object into a JSON file, whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def say(line: str) -> None:
    """Tell what happens."""
    print(line, flush=True)
