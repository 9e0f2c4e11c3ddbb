"""A PostgreSQL server of our own on a data folder, reached through a Unix socket only."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from deploy.standalone.accounts import Account, hand_over, unprivileged_account
from deploy.standalone.binaries import PostgresBinaries, find_postgres
from deploy.standalone.errors import FolderInUse, ServerFailed
from deploy.standalone.keeper import DATA_PLACEHOLDER, started
from deploy.standalone.locks import FileLock
from deploy.standalone.processes import KeptProcess, LogFile, Program
from deploy.standalone.server import Record, Server

DATABASE = "skipmap"
PORT = 5432
"""Only part of the socket's name: there is no TCP."""

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # A laptop's share: the operating system's cache does most of the work.
    "shared_buffers": "64MB",
    "max_connections": "100",
    "max_wal_size": "512MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "random_page_cost": "1.1",
    # Nothing replicates from here.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Commits still reach the operating system, and so outlive the server.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(Server):
    """PostgreSQL on ``data_dir``: the database ``skipmap``, its owner of the same name.

    Anybody who can enter the socket's folder is let in; that is this user (and, when root starts it, the user it
    then runs as).

    Args:
        data_dir: made when it is not there.
        durable: off for tests: a power cut may then lose the data, a killed server does not.
        settings: PostgreSQL settings on top of those of this module.
        start_seconds: how long a start may take, recovery after a crash included.
    """

    name = "PostgreSQL"
    # Fast shutdown, then an immediate one, which leaves the next start a recovery.
    stop_steps = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool = True,
        settings: dict[str, str] | None = None,
        start_seconds: float = 120.0,
    ) -> None:
        super().__init__(data_dir, start_seconds=start_seconds)
        self.durable = durable
        self.settings = SETTINGS | ({} if durable else NOT_DURABLE) | (settings or {})
        self._binaries: PostgresBinaries | None = None

    @property
    def url(self) -> str:
        """The database's address for SQLAlchemy."""
        return f"postgresql+psycopg://{DATABASE}@/{DATABASE}?host={quote(str(self.folder))}&port={PORT}"

    @property
    def cluster(self) -> Path:
        """PostgreSQL's own folder."""
        return self.data_dir / "cluster"

    def _account(self) -> Account | None:
        return unprivileged_account(self.cluster)

    def _prepare(self, lock: FileLock, deadline: float) -> None:
        account = self._account()
        major = self._check_cluster()
        self._binaries = find_postgres(account, major)
        if major is None:
            self._make_cluster(self._binaries, account, lock, deadline)
        elif account is not None and self.cluster.stat().st_uid != account.uid:
            hand_over(self.cluster, account)
        self._clear_pid_file()

    def _program(self, folder: Path) -> Program:
        assert self._binaries is not None
        settings = self.settings | {"unix_socket_directories": str(folder), "port": str(PORT)}
        return Program(
            command=(
                str(self._binaries.postgres),
                *("-D", DATA_PLACEHOLDER),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ),
            stop_steps=self.stop_steps,
            account=self._account(),
            data=self.cluster,
        )

    def _answers(self, record: Record) -> bool:
        lines = self._pid_file_lines()
        return len(lines) > 7 and lines[0] == str(record.pid) and lines[7].strip() == "ready"

    def _can_retry(self, log: str) -> bool:
        # After the main process was killed, its children take a moment to notice.
        return "is still in use" in log

    def _hint(self, log: str) -> str:
        if "could not create shared memory segment" in log or "could not map anonymous shared memory" in log:
            return "shared memory is short; allow more of it, or stop what uses it"
        if "No space left on device" in log:
            return "the disk is full"
        return ""

    def _check_cluster(self) -> int | None:
        """The major version that made the data; None when there is none yet."""
        if not self.cluster.exists():
            return None
        owner = self.cluster.stat().st_uid
        if os.geteuid() not in (0, owner):
            raise ServerFailed(
                f"{self.cluster} belongs to the user {_user_name(owner)}: start Skipmap as that user or as root, "
                "or set SKIPMAP_HOME to another folder"
            )
        try:
            return int((self.cluster / "PG_VERSION").read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise ServerFailed(
                f"{self.cluster} is no data folder of PostgreSQL ({error}): "
                "move it away to begin with an empty database"
            ) from error

    def _make_cluster(
        self, binaries: PostgresBinaries, account: Account | None, lock: FileLock, deadline: float
    ) -> None:
        """Make the data folder under another name first: a start that is cut off leaves no half of one."""
        new = self.data_dir / "cluster.new"
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        hand_over(new, account)
        data = ("-D", DATA_PLACEHOLDER)
        initdb = str(binaries.initdb)
        layout = ("-U", DATABASE, "-A", "trust", "-E", "UTF8", "--locale=C", "--data-checksums")
        # Without a server or a client yet; "-F" leaves writing to disk to the end.
        single = (str(binaries.postgres), "--single", "-F", *data, "-c", "exit_on_error=on", "postgres")
        log = LogFile(self.data_dir / "initdb.txt")
        log.begin()
        steps = [
            ((initdb, *data, *layout, "--no-sync", "--no-instructions"), ""),
            (single, f"CREATE DATABASE {DATABASE};\n"),
        ]
        if self.durable and sys.platform != "linux":
            steps.append(((initdb, *data, "--sync-only"), ""))
        for command, text in steps:
            program = Program(command, ((signal.SIGTERM, 5.0),), account, new, text)
            process = KeptProcess(program, log=log.path, lock=lock)
            try:
                code = process.wait(deadline - time.monotonic())
            finally:
                process.stop()
            if code != 0:
                raise self._failure(f"could not make its data folder ({Path(command[0]).name} failed)", log)
        if self.durable and sys.platform == "linux":
            _sync_file_system(new)
        new.rename(self.cluster)
        log.path.unlink()

    def _clear_pid_file(self) -> None:
        """Remove the mark of a server that is gone, whose process id may have gone to another process.

        PostgreSQL itself takes any living process with that id for the old server.
        """
        lines = self._pid_file_lines()
        if not lines:
            return
        pid = abs(int(lines[0])) if lines[0].lstrip("-").isdigit() else 0
        if started(pid) is not None and _is_postgres_on(pid, self.cluster):
            raise FolderInUse(
                f"process {pid} is a PostgreSQL server on {self.cluster} that Skipmap did not start: stop it first"
            )
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)

    def _pid_file_lines(self) -> list[str]:
        try:
            return (
                (self.cluster / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
            )
        except OSError:
            return []


def _is_postgres_on(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        # The server works in its data folder.
        with suppress(OSError):
            process = Path(f"/proc/{pid}")
            is_postgres = (process / "comm").read_text(encoding="utf-8").strip() == "postgres"
            return is_postgres and (process / "cwd").samefile(cluster)
        return False
    listed = subprocess.run(
        ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return Path(listed.stdout.strip()).name.startswith("postgres")


def _sync_file_system(folder: Path) -> None:
    """Write a new folder to disk in one go; file by file it takes seconds on a slow disk."""
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "the new data folder cannot be written to disk")
    finally:
        os.close(descriptor)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
