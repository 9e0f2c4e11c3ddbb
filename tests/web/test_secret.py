"""The key that signs cookies."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from skipmap.errors import InvalidInput
from tests.web.site import COOKIE
from web.secret import read_or_make


def test_it_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "new folder" / "secret-key"
    key = read_or_make(path)
    assert len(key) >= 43
    assert read_or_make(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make(tmp_path / "another") != key
    assert os.listdir(path.parent) == ["secret-key"]


def test_processes_that_start_together_agree(tmp_path):
    path = tmp_path / "secret-key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: read_or_make(path), range(32)))
    assert len(keys) == 1
    assert os.listdir(tmp_path) == ["secret-key"]


def test_one_of_ones_own_is_taken(tmp_path):
    path = tmp_path / "own"
    path.write_text("x" * 32 + "\n")
    assert read_or_make(path) == "x" * 32


@pytest.mark.parametrize("content", ["", "short", "\n" * 100])
def test_a_short_one_is_refused(tmp_path, content):
    path = tmp_path / "short"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="at least 32"):
        read_or_make(path)


def test_another_key_ends_all_sessions(make_app, make_site, tmp_path):
    site = make_site("viewer", app=make_app(web={"secret_key_file": tmp_path / "one"}))
    other = make_app(web={"secret_key_file": tmp_path / "two"}).test_client()
    other.set_cookie(COOKIE, site.client.get_cookie(COOKIE).value)
    assert site.get("/account").status_code == 200
    assert other.get("/account").status_code == 303
