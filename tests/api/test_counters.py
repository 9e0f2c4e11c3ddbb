from __future__ import annotations

from types import SimpleNamespace

import pytest

from api import counters
from api.counters import MinuteCounters
from deploy.standalone.valkey import ValkeyServer

KEY = ("read", "token:1")


@pytest.fixture
def clock(monkeypatch):
    """Time that goes on when it is told to."""
    now = SimpleNamespace(seconds=1_000_000_020.0)
    monkeypatch.setattr(
        counters, "time", SimpleNamespace(time=lambda: now.seconds, monotonic=lambda: now.seconds)
    )
    return now


def test_a_minute_begins_anew(clock):
    counts = MinuteCounters(None, "test", "tests")
    assert [counts.hit(KEY, 2) for _ in range(3)] == [True, True, False]
    assert counts.hit(("read", "token:2"), 2, 2)
    assert counts.resets_at(KEY, 2) == 1_000_000_080
    clock.seconds += 60
    assert counts.hit(KEY, 2)


def test_a_broker_that_is_away_is_left_alone_for_a_while(clock):
    counts = MinuteCounters("redis://127.0.0.1:9/0", "test", "tests")
    assert [counts.hit(KEY, 2) for _ in range(3)] == [True, True, False]
    assert counts.resets_at(KEY, 2) == 1_000_000_080
    assert counts.failures == 1
    clock.seconds += 6
    assert not counts.hit(KEY, 2)
    assert counts.failures == 2


def test_processes_count_together_in_the_broker(tmp_path):
    with ValkeyServer(tmp_path / "valkey") as server:
        first, second = (MinuteCounters(server.url, "test", "tests") for _ in range(2))
        assert [counts.hit(KEY, 3) for counts in (first, second, first, second)] == [True, True, True, False]
        assert MinuteCounters(server.url, "other", "tests").hit(KEY, 1)
