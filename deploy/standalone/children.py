"""The processes of Skipmap itself, each under a keeper, with its output in a log file of its own."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.standalone.console import short
from deploy.standalone.errors import ServerFailed
from deploy.standalone.locks import FileLock
from deploy.standalone.ports import HOST
from deploy.standalone.processes import KeptProcess, LogFile, Program
from deploy.standalone.running import RunFolder

ROOT = Path(__file__).resolve().parents[2]

API_STOP_SECONDS = 15.0
WORKER_STOP_SECONDS = 60.0
RECONCILER_STOP_SECONDS = 10.0
ORPHAN_SECONDS = 5.0
"""Without the manager the servers go too, so there is little to wait for."""


@dataclass(frozen=True)
class Application:
    """A program of Skipmap. ``stop_seconds``: how long it may take to end after SIGTERM."""

    name: str
    command: tuple[str, ...]
    stop_seconds: float
    while_stopping: str = ""
    """What it does meanwhile, for a message."""


def applications(port: int) -> tuple[Application, ...]:
    """What runs, in the order in which it stops: the API first, so that no work comes in while the worker ends."""
    serve = ("-c", str(ROOT / "api" / "gunicorn.conf.py"), "--bind", f"{HOST}:{port}", "web.app:create_app()")
    drains = f"it gives back what it is at, which may take up to {WORKER_STOP_SECONDS:.0f} s; Ctrl-C again: at once"
    return (
        Application("api", (sys.executable, "-m", "gunicorn", *serve), API_STOP_SECONDS),
        Application("worker", (sys.executable, "-m", "workers"), WORKER_STOP_SECONDS, drains),
        Application("reconciler", (sys.executable, "-m", "workers.reconciler"), RECONCILER_STOP_SECONDS),
    )


class Child:
    """One of these programs as a process; it ends, with all that it started, at the latest with this process."""

    def __init__(
        self,
        application: Application,
        *,
        environment: Mapping[str, str],
        logs: Path,
        run: RunFolder,
        lock: FileLock,
    ) -> None:
        self.application = application
        self.log = LogFile(logs / f"{application.name}.log")
        self._environment = environment
        self._run = run
        self._lock = lock
        self._process: KeptProcess | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.application.name

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; raises ServerFailed."""
        program = Program(
            command=self.application.command,
            stop_steps=((signal.SIGTERM, self.application.stop_seconds),),
            environment=self._environment,
            directory=ROOT,
            group=True,
            orphan_seconds=ORPHAN_SECONDS,
        )
        try:
            self.log.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.log.begin()
            self._process = KeptProcess(
                program, log=self.log.path, lock=self._lock, record=self._run.record(self.name)
            )
        except OSError as error:
            raise ServerFailed(f"{self.name} cannot be started: {error}") from error

    def how_it_ended(self) -> str:
        """How it ended and where to read more, for a message."""
        code = self._process.poll() if self._process is not None else None
        how = f"was ended by signal {code - 128}" if code and code > 128 else f"ended with exit code {code}"
        return f"{how} (see {short(self.log.path)})"

    def ask_to_stop(self) -> None:
        """Begin to stop it; asked again, it is ended at once."""
        if self._process is not None:
            self._process.ask_to_stop()

    def stop(self) -> None:
        """Stop it and wait for its end."""
        if self._process is not None:
            self._process.stop()
