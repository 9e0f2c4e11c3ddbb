"""The life of a server: one owner a data folder, start, attach, stop.

A data folder holds, beside the server's own files: ``lock``, held by the keeper while the server may be alive;
``server.json``, which tells where the server listens and who owns it; and ``log.txt``.
"""

from __future__ import annotations

import json
import os
import signal
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from deploy.standalone.accounts import Account
from deploy.standalone.errors import FolderInUse, ServerFailed
from deploy.standalone.keeper import remove_folder, started
from deploy.standalone.locks import FileLock
from deploy.standalone.processes import KeptProcess, LogFile, Program
from deploy.standalone.sockets import make_socket_folder

POLL_SECONDS = 0.02
RETRY_SECONDS = 0.25
ORPHAN_SECONDS = 5.0


@dataclass(frozen=True)
class Record:
    """Which server runs on a data folder, as its keeper wrote it."""

    pid: int
    started: str | None
    owner: int
    owner_started: str | None
    folder: Path

    @property
    def is_alive(self) -> bool:
        """Whether the server runs; a later process with the same id is not taken for it."""
        return self.started is not None and started(self.pid) == self.started

    @property
    def has_owner(self) -> bool:
        """Whether the process that started the server runs."""
        return self.owner_started is not None and started(self.owner) == self.owner_started


class Server(ABC):
    """A server on a data folder; it ends, at the latest, with the process that started it.

    ``start`` on a folder whose server another process runs attaches to that one: it can be used, and ``stop`` then
    leaves it running.
    """

    name: str
    stop_steps: tuple[tuple[signal.Signals, float], ...]
    """Signals that end the server, with the seconds to wait after each before the next; SIGKILL follows."""

    def __init__(self, data_dir: Path, *, start_seconds: float) -> None:
        self.data_dir = data_dir.absolute()
        self.start_seconds = start_seconds
        self.log = LogFile(self.data_dir / "log.txt")
        self._process: KeptProcess | None = None
        self._record: Record | None = None
        self._attached = False

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for clients; it stays the same when this object starts the server again."""

    @abstractmethod
    def _prepare(self, lock: FileLock, deadline: float) -> None:
        """Make the data folder ready; this process alone works on it."""

    @abstractmethod
    def _program(self, folder: Path) -> Program:
        """What to run, with its sockets in this folder."""

    @abstractmethod
    def _answers(self, record: Record) -> bool:
        """Whether the server takes connections."""

    def _account(self) -> Account | None:
        """The user that the server runs as, if not this one."""
        return None

    def _can_retry(self, log: str) -> bool:
        """After a failed start with this log: do what helps, if anything does; returns whether to try again."""
        return False

    def _hint(self, log: str) -> str:
        """What to do about a failure with this log, where that is known."""
        return ""

    @property
    def is_running(self) -> bool:
        """Whether the server that this object started, or attached to, runs."""
        if self._process is not None:
            return self._process.poll() is None
        return self._attached and self._record is not None and self._record.is_alive

    @property
    def is_attached(self) -> bool:
        """Whether the server runs and belongs to another process."""
        return self._attached and self.is_running

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._record.pid if self._record is not None and self.is_running else None

    @property
    def folder(self) -> Path:
        """Where the sockets lie."""
        if self._record is None:
            raise ServerFailed(f"{self.name} on {self.data_dir} has not been started")
        return self._record.folder

    def start(self) -> None:
        """Start the server, or attach to the one on this folder, and wait until it takes connections.

        Raises FolderInUse, MissingBinaries, WrongVersion or ServerFailed.
        """
        if self.is_running:
            return
        deadline = time.monotonic() + self.start_seconds
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            # Logs may quote data; another user's folder is not ours to close, nor to use.
            self.data_dir.chmod(0o700)
            with FileLock(self.data_dir / "lock") as lock:
                if self._wait_for(lock, deadline):
                    self._start(lock, deadline)
        except OSError as error:
            raise ServerFailed(f"{self.name} cannot be started on {self.data_dir}: {error}") from error

    def stop(self) -> None:
        """Stop the server if this object started it; otherwise only let go of it."""
        process, self._process, self._attached = self._process, None, False
        if process is not None:
            process.stop()
            self._clean_up()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_for(self, lock: FileLock, deadline: float) -> bool:
        """Take the lock, or attach to the server of the process that has it; returns whether the lock was taken."""
        while not lock.try_acquire():
            record = self._read_record()
            if record is not None and record.is_alive and record.has_owner and self._answers(record):
                self._record, self._process, self._attached = record, None, True
                return False
            if time.monotonic() > deadline:
                raise FolderInUse(
                    f"process {lock.holder()} holds {self.data_dir}, but its {self.name} does not answer; "
                    f"see {self.log.path}"
                )
            time.sleep(POLL_SECONDS)
        return True

    def _start(self, lock: FileLock, deadline: float) -> None:
        self._attached = False
        previous = self._read_record()
        if previous is not None:
            self._see_off(previous)
        last = self._record or previous
        wanted = last.folder if last is not None else None
        while True:
            self.log.begin()
            self._prepare(lock, deadline)
            folder = wanted = make_socket_folder(wanted, self._account())
            try:
                process = KeptProcess(
                    self._program(folder),
                    log=self.log.path,
                    lock=lock,
                    record=self._record_path,
                    folder=folder,
                )
            except BaseException:
                remove_folder(str(folder))
                raise
            try:
                if self._comes_up(process, deadline):
                    self._process = process
                    return
            except BaseException:
                process.stop()
                raise
            code = process.poll()
            process.stop()
            if time.monotonic() > deadline or not self._can_retry(self.log.tail()):
                what = "took too long to start" if code is None else f"ended with exit code {code}"
                raise self._failure(what, self.log)
            time.sleep(RETRY_SECONDS)

    def _comes_up(self, process: KeptProcess, deadline: float) -> bool:
        while process.poll() is None and time.monotonic() < deadline:
            record = self._read_record()
            # An older record is of a server that has ended.
            if record is not None and record.is_alive and self._answers(record):
                self._record = record
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _failure(self, what: str, log: LogFile) -> ServerFailed:
        tail = log.tail()
        hint = self._hint(tail)
        lines = [f"{self.name} on {self.data_dir} {what}" + (f": {hint}" if hint else "")]
        if tail:
            lines += [f"The end of {log.path}:", tail]
        return ServerFailed("\n".join(lines))

    def _clean_up(self) -> None:
        """Do what the keeper could not do if it was killed, unless another process has started the server since."""
        with suppress(FileNotFoundError), FileLock(self.data_dir / "lock") as lock:
            if self._record is not None and lock.try_acquire():
                self._see_off(self._record)
                remove_folder(str(self._record.folder))

    def _see_off(self, orphan: Record) -> None:
        """Wait for a server that has lost its keeper to end, and stop it if it does not."""
        steps = (*self.stop_steps, (signal.SIGKILL, ORPHAN_SECONDS))
        limit = time.monotonic() + ORPHAN_SECONDS
        for number, seconds in steps:
            while orphan.is_alive and time.monotonic() < limit:
                time.sleep(POLL_SECONDS)
            if not orphan.is_alive:
                return
            with suppress(ProcessLookupError):
                os.kill(orphan.pid, number)
            limit = time.monotonic() + seconds
        while orphan.is_alive:
            if time.monotonic() > limit:
                raise FolderInUse(f"process {orphan.pid} works on {self.data_dir} and cannot be stopped")
            time.sleep(POLL_SECONDS)

    @property
    def _record_path(self) -> Path:
        return self.data_dir / "server.json"

    def _read_record(self) -> Record | None:
        try:
            value = json.loads(self._record_path.read_text(encoding="utf-8"))
            return Record(**{**value, "folder": Path(value["folder"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None
