from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.docker.admin import main
from models.accounts import authenticate, find_user
from models.database import Database
from models.settings import get_settings


@pytest.fixture(autouse=True)
def _environment(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SKIPMAP_DATABASE_URL", database.engine.url.render_as_string(hide_password=False))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


def test_the_token_is_an_administrators(database: Database, capsys: pytest.CaptureFixture[str]):
    assert main(["ada"]) == 0
    principal = database.read(authenticate, capsys.readouterr().out.strip())
    assert principal is not None
    assert principal.user_name == "ada"
    assert principal.may("jobs:write")
    assert database.read(find_user, principal.user_id).role == "admin"


def test_a_name_is_given_once(capsys: pytest.CaptureFixture[str]):
    assert main(["ada"]) == 0
    capsys.readouterr()
    assert main(["ada"]) != 0
    printed = capsys.readouterr()
    assert not printed.out
    assert "'ada' is taken" in printed.err


@pytest.mark.parametrize("arguments", [[], [" "], ["ada", "bob"]])
def test_one_name_is_needed(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    assert "NAME" in capsys.readouterr().err
