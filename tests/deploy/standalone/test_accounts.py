from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from deploy.standalone import accounts
from deploy.standalone.accounts import Account, hand_over, unprivileged_account
from deploy.standalone.errors import ServerFailed

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the user")


def test_an_ordinary_user_runs_servers_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert unprivileged_account(tmp_path) is None
    hand_over(tmp_path, None)


@AS_ROOT
def test_root_takes_the_first_user_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accounts, "UNPRIVILEGED", ("no such user", "nobody"))
    nobody = pwd.getpwnam("nobody")
    expected = Account("nobody", nobody.pw_uid, nobody.pw_gid)
    assert unprivileged_account(tmp_path / "not there") == expected
    assert unprivileged_account(tmp_path) == expected, "root's folder"
    monkeypatch.setattr(accounts, "UNPRIVILEGED", ("no such user",))
    with pytest.raises(ServerFailed, match="no user to run it as"):
        unprivileged_account(tmp_path)


@AS_ROOT
def test_data_stays_with_its_owner(tmp_path: Path):
    os.chown(tmp_path, 12345, 12345)
    assert unprivileged_account(tmp_path) == Account("12345", 12345, 12345)


@AS_ROOT
def test_hand_over_all_but_what_links_lead_to(tmp_path: Path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.touch()
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").touch()
    (folder / "link").symlink_to(outside)
    hand_over(folder, Account("user", 12345, 12345))
    owners = {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}
    assert owners == {12345}
    assert outside.stat().st_uid == 0
