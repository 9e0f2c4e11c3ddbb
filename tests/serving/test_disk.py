from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skipmap.serving.disk import DiskCopy, DiskFault, DiskStore

COPY = DiskCopy(b'{"payload": "\xc3\xa9"}', 1_767_312_000.25, 7)


@pytest.fixture
def store(tmp_path) -> DiskStore:
    return DiskStore(tmp_path / "cache", "http://service", "chat", "production")


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to let a file grow beyond a size, as a full disk does; needs no privilege."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def tiny_disk(tmp_path) -> Iterator[Path]:
    """A file system of its own with 64 KB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system can be mounted by root alone; the limit on file sizes is tested instead")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_what_is_written_is_read(store):
    assert store.read() is None
    store.write(COPY)
    assert store.read() == COPY
    later = DiskCopy(b"{}", 1_767_312_001.0, 8)
    store.write(later)
    assert store.read() == later
    assert {path.name for path in store.path.parent.iterdir()} == {store.path.name, ".lock"}
    assert store.path.stat().st_mode & 0o077 == 0


def test_a_copy_never_replaces_a_later_one_of_another_process(store):
    store.write(COPY)
    store.write(DiskCopy(b"older", 1.0, 6))
    assert store.read() == COPY


def test_clients_of_one_folder_do_not_meet(tmp_path):
    names = [
        ("http://a", "m", "c"),
        ("http://b", "m", "c"),
        ("http://a", "m.c", ""),
        ("http://a", "m", "../c"),
    ]
    paths = {DiskStore(tmp_path, *name).path for name in names}
    assert len(paths) == len(names)
    assert {path.parent for path in paths} == {tmp_path}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_copy_is_told_from_a_good_one(store, data):
    store.write(COPY)
    good = store.path.read_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        damaged = good[:place]
    else:
        damaged = good[:place] + bytes([good[place] ^ data.draw(st.integers(1, 255))]) + good[place + 1 :]
    store.path.write_bytes(damaged)
    found = None
    with contextlib.suppress(DiskFault):
        found = store.read()
    # A space instead of another means the same.
    assert found in (None, COPY)


@pytest.mark.parametrize(
    "rubbish", [b"", b"\0" * 4096, b"[]", b'{"schema": "skipmap.node-copy/1"}', b"\xff\xfe"]
)
def test_rubbish_is_no_copy_and_gives_way_to_the_next_one(store, rubbish):
    store.path.parent.mkdir()
    store.path.write_bytes(rubbish)
    with pytest.raises(DiskFault, match="damaged"):
        store.read()
    store.write(COPY)
    assert store.read() == COPY


def _fails_and_keeps(store: DiskStore, reason: int) -> None:
    with pytest.raises(DiskFault, match=os.strerror(reason)):
        store.write(DiskCopy(b"x" * 50_000, 2.0, 8))
    assert store.read() == COPY
    assert [path.name for path in store.path.parent.iterdir() if path.suffix == ".partial"] == []


def test_a_write_that_the_kernel_cuts_short_keeps_the_old_copy(store):
    store.write(COPY)
    with _files_of_at_most(10_000):
        _fails_and_keeps(store, errno.EFBIG)


def test_a_full_disk_keeps_the_old_copy(tiny_disk):
    store = DiskStore(tiny_disk, "http://service", "chat", "production")
    store.write(COPY)
    _fails_and_keeps(store, errno.ENOSPC)


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path):
    (tmp_path / "file").write_text("")
    store = DiskStore(tmp_path / "file" / "cache", "http://service", "chat", "production")
    with pytest.raises(DiskFault, match="cannot be read"):
        store.read()
    with pytest.raises(DiskFault, match="restart"):
        store.write(COPY)
