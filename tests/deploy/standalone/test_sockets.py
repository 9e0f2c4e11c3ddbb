from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from deploy.standalone.keeper import remove_folder
from deploy.standalone.sockets import PLAIN_PATH, make_socket_folder


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A long path with spaces, as macOS and some users have it."""
    folder = tmp_path / "a temporary folder é" / ("long" * 10)
    folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


def test_short_and_private():
    folder = make_socket_folder(None, None)
    assert PLAIN_PATH.fullmatch(str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    remove_folder(str(folder))
    assert not folder.exists()


def test_the_same_folder_again():
    folder = make_socket_folder(None, None)
    (folder / "socket").touch()
    assert make_socket_folder(folder, None) == folder
    remove_folder(str(folder))
    assert make_socket_folder(folder, None) == folder
    remove_folder(str(folder))


@pytest.mark.parametrize("case", ["open", "link", "file"])
def test_a_folder_that_is_not_ours_is_not_taken(tmp_path: Path, case: str):
    wanted, elsewhere = tmp_path / "wanted", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if case == "open":
        wanted.mkdir()
        wanted.chmod(0o777)
    elif case == "link":
        wanted.symlink_to(elsewhere)
    else:
        wanted.touch()
    folder = make_socket_folder(wanted, None)
    assert folder != wanted
    remove_folder(str(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_taken(tmp_path: Path):
    wanted = tmp_path / "wanted"
    wanted.mkdir(mode=0o700)
    os.chown(wanted, 12345, 12345)
    folder = make_socket_folder(wanted, None)
    assert folder != wanted
    remove_folder(str(folder))


def test_removal_does_not_follow_a_link(tmp_path: Path):
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.mkdir()
    (precious / "file").touch()
    link.symlink_to(precious)
    remove_folder(str(link))
    assert (precious / "file").exists()
