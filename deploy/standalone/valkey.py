"""A Valkey (or Redis) server of our own on a data folder, reached through a Unix socket only."""

from __future__ import annotations

import shutil
import signal
import socket
from pathlib import Path

from deploy.standalone.binaries import ValkeyBinary, find_valkey
from deploy.standalone.keeper import DATA_PLACEHOLDER
from deploy.standalone.locks import FileLock
from deploy.standalone.processes import Program
from deploy.standalone.server import Record, Server

SOCKET = "valkey.sock"
ANSWER_SECONDS = 1.0
UNREADABLE = ("Bad file format reading the append only file", "Can't handle RDB format version")


class ValkeyServer(Server):
    """Valkey, or Redis, on ``data_dir``; it writes down what it holds every second and never drops keys."""

    name = "Valkey"
    stop_steps = ((signal.SIGTERM, 10.0),)

    def __init__(self, data_dir: Path, *, start_seconds: float = 60.0) -> None:
        super().__init__(data_dir, start_seconds=start_seconds)
        self._binary: ValkeyBinary | None = None

    @property
    def url(self) -> str:
        """The broker's address for Celery."""
        return f"redis+socket://{self.folder / SOCKET}"

    @property
    def client_url(self) -> str:
        """The same server's address for redis-py."""
        return f"unix://{self.folder / SOCKET}"

    @property
    def _data(self) -> Path:
        return self.data_dir / "data"

    def _prepare(self, lock: FileLock, deadline: float) -> None:
        self._binary = find_valkey()
        self._data.mkdir(exist_ok=True, mode=0o700)

    def _program(self, folder: Path) -> Program:
        assert self._binary is not None
        settings = {
            "port": "0",
            "unixsocket": str(folder / SOCKET),
            "unixsocketperm": "700",
            "dir": DATA_PLACEHOLDER,
            "appendonly": "yes",
            "appendfsync": "everysec",
            # The append-only file holds everything; snapshots beside it would only cost.
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "supervised": "no",
        }
        return Program(
            command=(
                str(self._binary.path),
                *(part for name in settings for part in (f"--{name}", settings[name])),
            ),
            stop_steps=self.stop_steps,
            data=self._data,
        )

    def _answers(self, record: Record) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(ANSWER_SECONDS)
                connection.connect(str(record.folder / SOCKET))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def _can_retry(self, log: str) -> bool:
        """Set data aside that cannot be read: cut off by a power failure, or written by another server.

        It holds only notices about work that the database knows, so nothing is lost with it.
        """
        if not any(complaint in log for complaint in UNREADABLE):
            return False
        aside = self.data_dir / "data.unreadable"
        if aside.exists():
            shutil.rmtree(aside)
        self._data.rename(aside)
        return True
