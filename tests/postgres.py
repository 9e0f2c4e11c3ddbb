"""A PostgreSQL server for the tests of a session, and migrated databases on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from models.database import Database
from models.settings import ServiceSettings
from models.tables import METADATA

_TEMPLATE = "migrated"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server of our own, which forgets everything in the end."""
    from deploy.standalone.postgres import PostgresServer

    server = PostgresServer(tmp_path_factory.mktemp("postgres"), durable=False)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@pytest.fixture(scope="session")
def _administration(postgres_url: str) -> Iterator[Engine]:
    engine = create_engine(postgres_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def _template(_administration: Engine) -> str:
    """Name of a migrated database that others are copied from; nobody connects to it any more."""
    from migrations.run import upgrade

    upgrade(_create(_administration, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
def make_database_url(_administration: Engine) -> Iterator[Callable[..., str]]:
    """Make a database, empty or a copy of another one, and give its address; all are gone after the test."""
    made: list[str] = []

    def make(template: str = "template1") -> str:
        made.append(f"test_{next(_numbers)}")
        return _create(_administration, made[-1], template)

    yield make
    with _administration.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def make_migrated_url(make_database_url: Callable[..., str], _template: str) -> Callable[[], str]:
    """Make a migrated database and give its address."""
    return lambda: make_database_url(_template)


@pytest.fixture
def empty_database_url(make_database_url: Callable[..., str]) -> str:
    """Address of a database without tables."""
    return make_database_url()


@pytest.fixture
def database_url(make_migrated_url: Callable[[], str]) -> str:
    """Address of a migrated database of this test's own: for tests that change tables, or kill who uses them."""
    return make_migrated_url()


@pytest.fixture(scope="module")
def module_database_url(_administration: Engine, _template: str) -> Iterator[str]:
    """Address of a migrated database of all tests of a module."""
    name = f"test_{next(_numbers)}"
    yield _create(_administration, name, _template)
    with _administration.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(scope="session")
def _reused(_administration: Engine, _template: str) -> Iterator[Database]:
    database = Database(make_settings(_create(_administration, "reused", _template)))
    yield database
    database.close()


@pytest.fixture
def database(_reused: Database) -> Iterator[Database]:
    """A migrated database without rows; it is emptied after the test, which is much faster than to make another."""
    yield _reused
    empty(_reused)


@pytest.fixture
def settings(database: Database) -> ServiceSettings:
    """Settings of the service for that database."""
    return make_settings(database.engine.url.render_as_string(hide_password=False))


def make_settings(url: str) -> ServiceSettings:
    """Settings of the service for a test's database; everything is retried at once."""
    return ServiceSettings(database_url=url, backoff_seconds=0.001, backoff_cap_seconds=0.001)


def empty(database: Database) -> None:
    """Remove all rows."""
    with database.engine.begin() as connection:
        for table in reversed(METADATA.sorted_tables):
            connection.execute(table.delete())


def _create(administration: Engine, name: str, template: str = "template1") -> str:
    with administration.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"))
    return make_url(administration.url).set(database=name).render_as_string(hide_password=False)
