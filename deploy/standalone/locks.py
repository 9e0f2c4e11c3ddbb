"""A lock file that its holder's death frees."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from deploy.standalone.errors import FolderInUse


class FileLock:
    """An exclusive lock on a file; the kernel frees it when the last process that holds it ends.

    The file names the process that took the lock, for messages only: whether it is held is asked of the kernel.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; returns whether this object holds it now."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return True

    def acquire(self, what: str) -> None:
        """Take the lock; raises FolderInUse, with the holder's process id, when somebody else has it."""
        if not self.try_acquire():
            raise FolderInUse(f"{what} (process {self.holder() or 'unknown'})")

    def holder(self) -> int | None:
        """The process that took the lock last, as written in the file; it may have ended since."""
        try:
            return int(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def fileno(self) -> int:
        """The descriptor of the held lock, to be handed to a child that keeps it held."""
        if self._descriptor is None:
            raise ValueError("the lock is not held")
        return self._descriptor

    def release(self) -> None:
        """Give up this process's share of the lock; a child that was handed the descriptor still holds it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
