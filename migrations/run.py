"""Migrate a database from code; ``python -m migrations.run`` brings the one of the settings up to date."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from migrations.schema import WrongSchema, check_schema
from models.errors import Unavailable
from models.settings import get_settings
from skipmap.errors import SkipmapError

_FOLDER = Path(__file__).parent
_NEWEST = "head"


def upgrade(database_url: str, revision: str = _NEWEST) -> None:
    """Bring a database to a revision; processes that do so at once wait for each other.

    Raises Unavailable, and WrongSchema for a database that this version cannot work with.
    """
    _run(database_url, command.upgrade, revision)


def downgrade(database_url: str, revision: str) -> None:
    """Take a database back to a revision; ``base`` removes all tables. Raises Unavailable."""
    _run(database_url, command.downgrade, revision)


def config() -> Config:
    """Alembic's configuration, independent of the working directory."""
    made = Config()
    # Alembic reads the value as a template.
    made.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return made


def _run(database_url: str, step: Callable[[Config, str], None], revision: str) -> None:
    try:
        with create_engine(database_url, poolclass=NullPool).connect() as connection:
            made = config()
            made.attributes["connection"] = connection
            step(made, revision)
            if revision == _NEWEST:
                check_schema(connection)
    except OperationalError as error:
        raise Unavailable(f"the database cannot be migrated now ({error.orig}); try again shortly") from error
    except CommandError as error:
        raise WrongSchema(f"the database was made by another version of Skipmap ({error})") from error
    except DBAPIError as error:
        cause = str(error.orig).strip().partition("\n")[0]
        raise WrongSchema(
            f"the database cannot be brought up to date, for its tables are not those of its revision ({cause})"
        ) from error


def main() -> int:
    """Upgrade the database of the settings; returns an exit code."""
    try:
        upgrade(get_settings().database_url)
    except SkipmapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
