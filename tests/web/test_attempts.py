"""Attempts to sign in, counted in memory and in a broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from api import counters
from api.problems import ProblemError
from deploy.standalone.valkey import ValkeyServer
from web import attempts
from web.attempts import Attempts

ADDRESS = "10.0.0.1"


@pytest.fixture
def clock(monkeypatch):
    """Time that goes on when it is told to."""
    now = SimpleNamespace(seconds=1_000_000_020.0)
    fake = SimpleNamespace(time=lambda: now.seconds, monotonic=lambda: now.seconds)
    monkeypatch.setattr(counters, "time", fake)
    monkeypatch.setattr(attempts, "time", fake)
    return now


def allowed(counts: Attempts, address: str = ADDRESS, name: str = "") -> bool:
    try:
        counts.check(address, name)
    except ProblemError:
        return False
    return True


def test_who_is_refused_is_told_how_long_to_wait(clock):
    counts = Attempts(1, None)
    counts.check(ADDRESS)
    clock.seconds += 10
    with pytest.raises(ProblemError, match="wait 50 s") as refused:
        counts.check(ADDRESS)
    assert (refused.value.kind.status, refused.value.headers) == (429, {"Retry-After": "50"})


def test_a_minute_begins_anew(clock):
    counts = Attempts(2, None)
    assert [allowed(counts) for _ in range(3)] == [True, True, False]
    clock.seconds += 60
    assert allowed(counts)


@pytest.fixture
def _two_addresses(monkeypatch):
    """A name is shut when two addresses have used up their attempts."""
    monkeypatch.setattr(attempts, "_ADDRESSES", 2)


@pytest.mark.usefixtures("_two_addresses")
def test_names_and_addresses_are_counted_apart(clock):
    counts = Attempts(2, None)
    assert [allowed(counts, f"10.0.0.{number}", "ada") for number in range(5)] == [*[True] * 4, False]
    assert allowed(counts, "10.0.0.9", "grace")
    assert [allowed(counts, "10.0.1.1", f"user {number}") for number in range(3)] == [True, True, False]


def test_one_address_shuts_no_name(clock):
    counts = Attempts(1, None)
    assert [allowed(counts, name="ada") for _ in range(100)] == [True, *[False] * 99]
    assert allowed(counts, "10.0.0.2", "ada")


def test_who_is_signed_in_is_counted_apart_from_strangers(clock):
    counts = Attempts(1, None)
    for number in range(30):
        allowed(counts, f"10.0.{number}.1", "ada")
    counts.check_user("id of ada")
    with pytest.raises(ProblemError, match="too many attempts"):
        counts.check_user("id of ada")
    counts.check_user("id of grace")


@pytest.mark.parametrize("name", ["ADA", " ada ", "\uff41da"])
@pytest.mark.usefixtures("_two_addresses")
def test_ways_to_write_a_name_count_together(clock, name):
    counts = Attempts(1, None)
    assert allowed(counts, "10.0.0.1", "ada")
    assert allowed(counts, "10.0.0.2", name)
    assert not allowed(counts, "10.0.0.3", "ada")


def test_a_network_of_ipv6_counts_as_one_address(clock):
    counts = Attempts(1, None)
    assert allowed(counts, "2001:db8::1")
    assert not allowed(counts, "2001:db8::ffff:2")
    assert allowed(counts, "2001:db8:0:1::1")
    assert allowed(counts, "unknown")


@pytest.mark.parametrize("name", ["x" * 1_000_000, "\0", "\ud800", "a:b\r\nc"])
@pytest.mark.usefixtures("_two_addresses")
def test_any_name_can_be_counted(clock, name):
    counts = Attempts(1, None)
    assert [allowed(counts, f"10.0.0.{number}", name) for number in range(3)] == [True, True, False]


def test_names_are_not_kept(clock):
    counts = Attempts(1, None)
    allowed(counts, name="perhaps a password")
    assert "perhaps" not in repr(vars(counts))


def test_failures_may_be_noted_so_many_times_a_minute(clock, monkeypatch):
    monkeypatch.setattr(attempts, "_NOTED_PER_MINUTE", 2)
    counts = Attempts(1, None)
    assert [counts.may_note_failure() for _ in range(3)] == [True, True, False]


def test_without_its_broker_each_process_counts_for_itself(clock):
    counts = Attempts(2, "redis://127.0.0.1:9/0")
    assert [allowed(counts) for _ in range(3)] == [True, True, False]


def test_processes_count_together_in_the_broker(tmp_path):
    with ValkeyServer(tmp_path / "valkey") as server:
        first, second = Attempts(3, server.url), Attempts(3, server.url)
        tries = [allowed(counts, name="ada") for counts in (first, second, first, second)]
    assert tries == [True, True, True, False]
