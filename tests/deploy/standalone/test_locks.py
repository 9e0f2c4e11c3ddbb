from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.standalone.errors import FolderInUse
from deploy.standalone.locks import FileLock

HOLDER = """
import sys
from pathlib import Path
from deploy.standalone.locks import FileLock

print(FileLock(Path(sys.argv[1])).try_acquire(), flush=True)
input()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a lock é"


def test_one_holder_at_a_time(path: Path):
    with FileLock(path) as first, FileLock(path) as second:
        assert first.try_acquire()
        assert first.try_acquire()
        assert not second.try_acquire()
        with pytest.raises(FolderInUse, match=rf"^Skipmap runs here already \(process {os.getpid()}\)$"):
            second.acquire("Skipmap runs here already")
        first.release()
        second.acquire("free now")


def test_a_killed_holder_frees_it(path: Path, run_python, comes_true):
    holder = run_python(HOLDER, path)
    assert holder.stdout.readline() == "True\n"
    lock = FileLock(path)
    assert not lock.try_acquire()
    assert lock.holder() == holder.pid
    holder.kill()
    assert comes_true(lock.try_acquire)
    assert lock.holder() == os.getpid()
    lock.release()


def test_a_child_that_was_handed_it_holds_it_on(path: Path, comes_true):
    lock = FileLock(path)
    lock.acquire("free")
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock.fileno(),)
    )
    lock.release()
    assert not lock.try_acquire()
    child.communicate(b"\n")
    assert lock.try_acquire()
    lock.release()


def test_descriptor_of_a_lock_not_held(path: Path):
    with pytest.raises(ValueError, match="not held"):
        FileLock(path).fileno()


@pytest.mark.parametrize("text", ["", "no number", None])
def test_unknown_holder(path: Path, text: str | None):
    if text is not None:
        path.write_text(text, encoding="ascii")
    assert FileLock(path).holder() is None
