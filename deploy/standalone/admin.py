"""The first administrator's token, made once and kept in a file that only this user can read."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.orm import Session

from deploy.standalone.errors import StandaloneError
from models.accounts import all_tokens, authenticate, create_token, create_user
from models.database import Database

USER_NAME = "local-admin"
TOKEN_NAME = "standalone"


def ensure_admin(database: Database, file: Path) -> str | None:
    """See to it that the file holds a token that this database takes; returns the token if it is a new one.

    A file that was lost, or is of another database, gets a new token; older tokens stay valid until revoked.
    """
    kept = _read(file)
    if kept is not None and database.read(authenticate, kept) is not None:
        file.chmod(0o600)
        return None
    secret = database.transaction(_make)
    _write(file, secret)
    return secret


def _make(session: Session) -> str:
    # The user and the first token of this name come in one transaction, so the token leads to the user.
    user = next((token.user_id for token in all_tokens(session) if token.name == TOKEN_NAME), None)
    if user is None:
        user = create_user(session, USER_NAME, role="admin").id
    secret = create_token(session, user, TOKEN_NAME, ["admin"])[1]
    if authenticate(session, secret) is None:
        raise StandaloneError(
            f"the user {USER_NAME!r} is disabled, so its new token would not work: "
            f"let an administrator run: skipmap users enable {USER_NAME}"
        )
    return secret


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip() or None
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _write(file: Path, secret: str) -> None:
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as output:
        output.write(f"{secret}\n")
        output.flush()
        os.fsync(descriptor)
    part.replace(file)
