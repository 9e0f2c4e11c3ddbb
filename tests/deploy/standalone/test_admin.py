from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from deploy.standalone.admin import USER_NAME, ensure_admin
from deploy.standalone.errors import StandaloneError
from models.accounts import User, all_tokens, authenticate, create_user, disable_user, find_user, revoke_token
from models.database import Database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "admin-token"


def test_made_once(database: Database, file: Path):
    secret = ensure_admin(database, file)
    assert file.read_text() == f"{secret}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    principal = database.read(authenticate, secret)
    assert principal.user_name == USER_NAME
    assert principal.may("maps:publish")
    assert database.read(find_user, principal.user_id).role == "admin"
    assert ensure_admin(database, file) is None
    assert len(database.transaction(all_tokens)) == 1


def test_a_file_open_to_others_is_closed(database: Database, file: Path):
    ensure_admin(database, file)
    file.chmod(0o644)
    ensure_admin(database, file)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("loss", ["gone", "empty", "no text", "of another database", "revoked"])
def test_lost_token_is_replaced(database: Database, file: Path, loss: str):
    first = ensure_admin(database, file)
    contents = {"empty": b"", "no text": b"\xff", "of another database": b"skm_other\n"}
    if loss == "gone":
        file.unlink()
    elif loss == "revoked":
        (token,) = database.transaction(all_tokens)
        database.transaction(revoke_token, token.id)
    else:
        file.write_bytes(contents[loss])
    second = ensure_admin(database, file)
    assert second not in (None, first)
    assert file.read_text() == f"{second}\n"
    users = {token.user_id for token in database.transaction(all_tokens)}
    assert len(users) == 1, "the same user gets it"


def test_disabled_user_gets_no_useless_token(database: Database, file: Path):
    ensure_admin(database, file)
    user = database.transaction(lambda session: session.scalars(select(User.id)).one())
    database.transaction(create_user, "another", role="admin")
    database.transaction(disable_user, user)
    with pytest.raises(StandaloneError, match=f"'{USER_NAME}' is disabled"):
        ensure_admin(database, file)
    assert len(database.transaction(all_tokens)) == 1
