"""What Alembic runs: migrations on the database that the settings name, or on a connection that the caller gives."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from models.settings import get_settings
from models.tables import METADATA

LOCK_TIMEOUT_SECONDS = 3
_MIGRATION_LOCK = 0x736B6971


def run(connection: Connection) -> None:
    """Migrate over a connection; everything or nothing."""
    # One at a time; held until the connection closes.
    connection.exec_driver_sql(f"SELECT pg_advisory_lock({_MIGRATION_LOCK})")
    # A migration that waits for a lock makes everybody behind it wait: it gives up instead and is run again.
    connection.exec_driver_sql(f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
    connection.commit()
    context.configure(connection=connection, target_metadata=METADATA, compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    """Take the caller's connection or make one."""
    if context.is_offline_mode():
        context.configure(url=get_settings().database_url, target_metadata=METADATA, literal_binds=True)
        with context.begin_transaction():
            context.run_migrations()
        return
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    with create_engine(get_settings().database_url, poolclass=NullPool).connect() as connection:
        run(connection)


main()
