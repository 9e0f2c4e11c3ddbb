"""A bench for every test; when the test is over, what is stored must still make sense."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from models.database import Database
from models.invariants import broken_levels, broken_rules
from models.jobs import Job
from models.settings import ServiceSettings
from tests.models.bench import Bench


@pytest.fixture
def bench(database: Database, settings: ServiceSettings) -> Iterator[Bench]:
    """Fake workers on this test's database."""
    yield Bench(database, settings)

    def check() -> list[str]:
        def broken(session) -> list[str]:
            jobs = session.scalars(select(Job.id)).all()
            return broken_rules(session) + [line for job in jobs for line in broken_levels(session, job)]

        return database.transaction(broken)

    assert check() == []
