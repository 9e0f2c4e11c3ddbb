"""Who manages a home: what ``up`` writes down for ``status``, ``down`` and a second ``up``."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deploy.standalone.keeper import started


@dataclass(frozen=True)
class Manager:
    """The process that runs Skipmap on a home. ``since``: seconds since 1970."""

    pid: int
    started: str | None
    url: str
    since: float
    ready: bool

    @property
    def is_alive(self) -> bool:
        """Whether it runs; a later process with the same id is not taken for it."""
        return self.started is not None and started(self.pid) == self.started


class RunFolder:
    """The folder ``manager`` of a home: ``manager.json``, and a file for each process that it keeps."""

    def __init__(self, home: Path) -> None:
        self.path = home / "manager"

    def write(self, url: str, since: float, *, ready: bool) -> None:
        """Write this process down as the manager."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        manager = Manager(os.getpid(), started(os.getpid()), url, since, ready)
        part = self.path / "manager.json.part"
        part.write_text(json.dumps(asdict(manager)), encoding="utf-8")
        part.replace(self.path / "manager.json")

    def manager(self) -> Manager | None:
        """The manager that runs; None if there is none."""
        try:
            manager = Manager(**_read(self.path / "manager.json"))
        except (OSError, ValueError, TypeError):
            return None
        return manager if manager.is_alive else None

    def record(self, name: str) -> Path:
        """Where a process is written down by its keeper."""
        return self.path / f"{name}.json"

    def clear(self) -> None:
        """Forget all, after a clean stop or before a start."""
        shutil.rmtree(self.path, ignore_errors=True)


def pid_in(record: Path) -> int | None:
    """The id of the process that a keeper wrote down, if it runs."""
    try:
        found = _read(record)
        pid, when = found["pid"], found["started"]
    except (OSError, ValueError, KeyError):
        return None
    return pid if isinstance(pid, int) and when is not None and started(pid) == when else None


def _read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(path)
    return value
