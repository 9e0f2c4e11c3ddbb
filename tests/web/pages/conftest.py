"""What tests of pages share: hashes that take no time, and jobs of every kind."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from models import passwords
from tests.models.bench import Bench
from tests.web.pages.story import Story, make_story


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


@pytest.fixture
def story(bench: Bench) -> Story:
    return make_story(bench)
