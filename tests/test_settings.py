from __future__ import annotations

import os
from pathlib import Path

import pytest

from skipmap.errors import InvalidInput
from skipmap.settings import Settings, get_settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch):
    for name in ("SKIPMAP_HOME", "SKIPMAP_CACHE", "SKIPMAP_MODEL_ROOTS"):
        monkeypatch.delenv(name, raising=False)
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


def test_defaults_lie_in_the_users_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = get_settings()
    assert settings.home == tmp_path / ".skipmap"
    assert settings.cache == tmp_path / ".skipmap" / "cache"
    assert settings.model_roots == ()


def test_cache_follows_home_unless_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SKIPMAP_HOME", str(tmp_path / "a home"))
    assert Settings().cache == tmp_path / "a home" / "cache"
    monkeypatch.setenv("SKIPMAP_CACHE", "some/where")
    assert Settings().cache == Path.cwd() / "some" / "where"


def test_model_roots_are_a_path_list_with_links_resolved(monkeypatch, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("SKIPMAP_MODEL_ROOTS", os.pathsep.join([str(tmp_path / "link"), "", "/models"]))
    assert Settings().model_roots == ((tmp_path / "real").resolve(), Path("/models"))


def test_empty_variables_count_as_unset(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKIPMAP_HOME", "")
    assert Settings().home == tmp_path / ".skipmap"


def test_environment_is_read_once(monkeypatch, tmp_path):
    first = get_settings()
    monkeypatch.setenv("SKIPMAP_HOME", str(tmp_path))
    assert get_settings() is first


def test_bad_value_names_the_variable(monkeypatch):
    monkeypatch.setenv("SKIPMAP_HOME", "~no-such-user-here/x")
    with pytest.raises(InvalidInput, match=r"SKIPMAP_HOME.*give an absolute path"):
        get_settings()
