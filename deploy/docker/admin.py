"""Adds an administrator and prints a token for it: ``python -m deploy.docker.admin NAME``."""

from __future__ import annotations

import sys

from sqlalchemy.orm import Session

from models import audit
from models.accounts import create_token, create_user
from models.database import Database
from models.settings import get_settings
from skipmap.errors import InvalidInput, SkipmapError

_TOKEN_NAME = "first"


def add_admin(session: Session, name: str) -> str:
    """Add a user with an admin token; returns the secret, which cannot be shown again. Raises Conflict."""
    user = create_user(session, name, role="admin")
    token, secret = create_token(session, user.id, _TOKEN_NAME, ["admin"])
    audit.record(session, user.id, "user.create", user.id, token=token.id)
    return secret


def main(arguments: list[str]) -> int:
    """Add the administrator of that name to the database of the settings; returns an exit code."""
    try:
        if len(arguments) != 1 or not arguments[0].strip():
            raise InvalidInput("NAME", f"one name is needed; {len(arguments)} given")
        database = Database(get_settings(), name="skipmap-admin")
        try:
            print(database.transaction(add_admin, arguments[0]))
        finally:
            database.close()
    except SkipmapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
