"""Locks and errors of the cache folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skipmap.errors import ModelFailure


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold ``lock`` across processes and threads; it is freed when the holder ends, however it ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def unusable_cache(path: Path, error: BaseException) -> ModelFailure:
    """The error for a cache folder that cannot be written."""
    return ModelFailure(
        f"cannot write {path}: {error}; free some space there, or set SKIPMAP_CACHE to a folder that can be written"
    )
