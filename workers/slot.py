"""The place that a worker takes: a GPU or a seat on the CPU, held by one process tree at a time."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from models.errors import OwnerBusy
from workers.settings import WorkerSettings

_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LIST_SECONDS = 30
_GPU_LINE = re.compile(r"^GPU (\d+): .*\(UUID: ([^)]+)\)")


@dataclass(frozen=True)
class Place:
    """``owner``: name in the database, the same for every process that takes this place; ``device_class``: its kind."""

    owner: str
    device_class: str


def find_place(settings: WorkerSettings) -> Place:
    """Where this worker runs; the parent process asks without touching the GPU."""
    host = platform.node() or "host"
    gpu = None if settings.device == "cpu" else _visible_gpu()
    if gpu is None and settings.device == "cuda":
        raise OwnerBusy("SKIPMAP_DEVICE is cuda, but nvidia-smi shows no GPU that this process may use")
    if gpu is not None:
        return Place(f"{host}/{gpu}", "cuda")
    return Place(f"{host}/cpu-{settings.slot}", "cpu")


class PlaceLock:
    """A lock on a place of this host. Children share it, so it is free once the last process of a worker is gone."""

    def __init__(self, folder: Path, owner: str) -> None:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", owner)
        self.alive = folder / f"{name}.alive"
        """Touched with every sign of life."""
        self.drain = folder / f"{name}.drain"
        """There while the worker is to stop at the next forward, also when no database can tell it so."""
        self._path = folder / f"{name}.lock"
        self._owner = owner
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the place; waits for the last process of a predecessor to end. Raises OwnerBusy."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OwnerBusy(
                        f"another worker runs as {self._owner}; stop it, or set SKIPMAP_SLOT to another name"
                    ) from None
                time.sleep(_POLL_SECONDS)
        self.drain.unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove what tells others how this worker is; the lock goes with the process."""
        self.drain.unlink(missing_ok=True)
        self.alive.unlink(missing_ok=True)

    @property
    def is_draining(self) -> bool:
        """Whether the worker was asked to stop."""
        return self.drain.exists()


def _visible_gpu() -> str | None:
    """UUID of the first GPU that this process may use."""
    program = shutil.which("nvidia-smi")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if program is None or visible in ("", "-1"):
        return None
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=_LIST_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = (_GPU_LINE.match(line) for line in listed.stdout.splitlines())
    gpus = {match[1]: match[2] for match in found if match is not None}
    if visible is None:
        return next(iter(gpus.values()), None)
    first = visible.split(",")[0].strip()
    return gpus.get(first) or next((uuid for uuid in gpus.values() if uuid.startswith(first)), None)
