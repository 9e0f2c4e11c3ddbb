"""What tests of administration share: a user to change, and what the audit says."""

from __future__ import annotations

import pytest

from models.accounts import create_user


@pytest.fixture
def grace(database) -> str:
    """A user to change."""
    return database.transaction(create_user, "grace", role="editor").id


def actions(bench) -> list[str]:
    return list(bench.sql("SELECT action FROM audit ORDER BY id"))
