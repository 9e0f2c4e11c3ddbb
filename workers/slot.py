"""The place that a worker takes: a GPU or a seat on the CPU, held by one process tree at a time."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from models.errors import OwnerBusy
from skipmap.errors import InvalidInput
from workers.settings import WorkerSettings

_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LIST_SECONDS = 30
_GPU_LINE = re.compile(r"^GPU \d+: .*\(UUID: ([^)]+)\)")
_PART_LINE = re.compile(r"^\s+MIG .*\(UUID: ([^)]+)\)")


_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Place:
    """``owner``: name in the database, the same for every process that takes this place; ``device_class``: its kind."""

    owner: str
    device_class: str
    gpu: str | None = None

    def enter(self) -> None:
        """Let this process and its children see the place's GPU alone."""
        if self.gpu is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.gpu


def places(settings: WorkerSettings) -> list[Place]:
    """The places that this worker may take, best first; the parent process asks without touching a GPU.

    Raises InvalidInput when a GPU is asked for and there is none.
    """
    host = platform.node() or "host"
    gpus = [] if settings.device == "cpu" else visible_gpus()
    if not gpus and settings.device == "cuda":
        raise InvalidInput(
            "SKIPMAP_DEVICE", "cuda given, but nvidia-smi shows no GPU that this process may use"
        )
    if gpus:
        return [Place(f"{host}/{gpu}", "cuda", gpu) for gpu in gpus]
    return [Place(f"{host}/cpu-{settings.slot}", "cpu")]


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

    def acquire(self, wait_seconds: float = _WAIT_SECONDS) -> None:
        """Take the place; waits for the last process of a predecessor to end. Raises OwnerBusy."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + wait_seconds
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


def visible_gpus() -> list[str]:
    """UUIDs of the GPUs, or parts of one, that this process may use."""
    program = shutil.which("nvidia-smi")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if program is None or visible in ("", "-1"):
        return []
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=_LIST_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("nvidia-smi does not answer; taken for a host without a GPU", error=str(error))
        return []
    gpus = [match[1] for match in map(_GPU_LINE.match, listed.stdout.splitlines()) if match is not None]
    parts = [match[1] for match in map(_PART_LINE.match, listed.stdout.splitlines()) if match is not None]
    if visible is None:
        return gpus
    return [found for name in visible.split(",") if (found := _named(name.strip(), gpus, parts)) is not None]


def _named(name: str, gpus: Sequence[str], parts: Sequence[str]) -> str | None:
    """A device as CUDA_VISIBLE_DEVICES names it: by number, or by the beginning of its UUID."""
    if name.isdigit():
        return gpus[int(name)] if int(name) < len(gpus) else None
    return next((uuid for uuid in (*gpus, *parts) if name and uuid.startswith(name)), None)


def take_place(candidates: Sequence[Place], folder: Path) -> tuple[Place, PlaceLock]:
    """The first place that is free, with its lock; raises OwnerBusy when all are taken."""
    locks = [PlaceLock(folder, place.owner) for place in candidates]
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        for place, lock in zip(candidates, locks, strict=True):
            with suppress(OwnerBusy):
                lock.acquire(0.0)
                return place, lock
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    taken = ", ".join(place.owner for place in candidates)
    way_out = (
        "stop a worker" if candidates[0].gpu else "stop that worker, or set SKIPMAP_SLOT to another name"
    )
    raise OwnerBusy(f"another worker runs as {taken}; {way_out}")
