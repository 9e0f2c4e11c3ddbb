"""Programs run under a keeper, with their output in a log file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.standalone import keeper
from deploy.standalone.accounts import Account
from deploy.standalone.locks import FileLock

STOP_MARGIN_SECONDS = 5.0
ORPHAN_SECONDS = 60.0
LOG_LIMIT_BYTES = 5_000_000
LOG_TAIL_LINES = 20

PASSED_ON = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What a server may see of the environment; the rest may hold secrets or settings of its clients."""


@dataclass(frozen=True)
class Program:
    """A command to run under a keeper.

    ``{data}`` in the command stands for the path of the folder ``data``, as the account can reach it. ``stop_steps``
    are signals with the seconds to wait after each before the next; SIGKILL follows. ``environment``: all that the
    program sees of it; None: what a server may see. ``group``: the program starts others, which end with it.
    ``orphan_seconds``: the longest wait before SIGKILL once this process is gone.
    """

    command: tuple[str, ...]
    stop_steps: tuple[tuple[signal.Signals, float], ...]
    account: Account | None = None
    data: Path | None = None
    input: str = ""
    environment: Mapping[str, str] | None = None
    directory: Path = Path("/")
    group: bool = False
    orphan_seconds: float = ORPHAN_SECONDS


class KeptProcess:
    """A program that runs under a keeper, and so never outlives this process.

    The keeper shares the lock and holds it until the program has ended. It writes the record, if one is named, as
    soon as the program runs, and removes the folder after its end.
    """

    def __init__(
        self,
        program: Program,
        *,
        log: Path,
        lock: FileLock,
        record: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self._stop_seconds = sum(seconds for _, seconds in program.stop_steps)
        account = program.account
        order = {
            "command": program.command,
            "stop_steps": program.stop_steps,
            "user": (account.uid, account.gid) if account else None,
            "data": str(program.data) if program.data else None,
            "input": program.input,
            "parent": os.getpid(),
            "record": str(record) if record else None,
            "folder": str(folder) if folder else None,
            "group": program.group,
            "orphan_seconds": program.orphan_seconds,
        }
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", keeper.__file__, json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=program.directory,
                env=_environment(os.environ) if program.environment is None else program.environment,
                pass_fds=(lock.fileno(),),
                # Ctrl-C is for the process that manages the servers; it stops them in order.
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """The exit code once the program has ended."""
        return self._keeper.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for the program's end; None if it still runs after these seconds."""
        try:
            return self._keeper.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """Begin to stop the program; asked again, it is ended at once."""
        if self.poll() is None:
            self._keeper.terminate()

    def stop(self) -> None:
        """Stop the program and wait for its end."""
        if self.poll() is None:
            self._keeper.terminate()
            if self.wait(self._stop_seconds + STOP_MARGIN_SECONDS) is None:
                self._keeper.kill()
                self._keeper.wait()


class LogFile:
    """The output of a server over all its starts; one old file is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = 0

    def begin(self) -> None:
        """Mark the beginning of a start."""
        if self.path.exists() and self.path.stat().st_size > LOG_LIMIT_BYTES:
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        self._begin = self.path.stat().st_size if self.path.exists() else 0

    def make_room(self) -> None:
        """Set the lines so far aside when they are many, while a program goes on writing to the file."""
        if self.path.exists() and self.path.stat().st_size > LOG_LIMIT_BYTES:
            shutil.copyfile(self.path, self.path.with_name(f"{self.path.name}.1"))
            # Its writers append, so the next line becomes the first.
            os.truncate(self.path, 0)
            self._begin = 0

    def tail(self) -> str:
        """The last lines written since the last start began."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(self._begin)
            text = file.read().decode("utf-8", errors="replace")
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    # On macOS, PostgreSQL refuses to start without a locale.
    return {name: given[name] for name in PASSED_ON if name in given} | {"LC_ALL": "C", "TZ": "UTC"}
