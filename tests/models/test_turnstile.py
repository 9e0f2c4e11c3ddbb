from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from models import turnstile as module
from models.turnstile import Crowded, Turnstile


class Clock:
    """Time that passes only while somebody waits, and what happens meanwhile."""

    def __init__(self):
        self.now = 0.0
        self.waits = []
        self.meanwhile = []

    def event(self):
        """One of which the clock tells how long it was waited for."""
        event = threading.Event()

        def wait(seconds):
            self.waits.append(seconds)
            if self.meanwhile:
                at, happens = self.meanwhile.pop(0)
                self.now = at
                happens()
            else:
                self.now += seconds
            return event.is_set()

        return SimpleNamespace(wait=wait, set=event.set, is_set=event.is_set)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(module, "threading", SimpleNamespace(Event=made.event, Lock=threading.Lock))
    return made


def refused(turnstile):
    with pytest.raises(Crowded) as caught, turnstile.turn():
        pytest.fail("it has come in")
    return str(caught.value)


def test_as_many_are_in_as_there_are_places(clock):
    turnstile = Turnstile(2, 1.5, 10)
    with turnstile.turn(), turnstile.turn():
        assert "no connection came free in 1.5 s" in refused(turnstile)
    with turnstile.turn(), turnstile.turn():
        pass
    assert clock.waits == [1.5]


def test_whoever_waits_goes_on_as_long_as_others_are_answered(clock):
    turnstile = Turnstile(1, 1.5, 10)
    earlier = [module._Place() for _ in range(2)]
    turnstile._enter()
    # They have come before.
    turnstile._waiting.extend(earlier)
    clock.meanwhile = [(1.0, lambda: turnstile._leave(True)), (2.0, lambda: turnstile._leave(True))]
    assert "in 3.5 s" in refused(turnstile)
    assert clock.waits == [1.5, 1.5, 1.5]
    assert all(place.is_free.is_set() for place in earlier)


def test_failures_are_no_answers(clock):
    turnstile = Turnstile(1, 1.5, 10)
    turnstile._enter()
    turnstile._waiting.append(module._Place())
    clock.meanwhile = [(1.0, lambda: turnstile._leave(False))]
    assert "in 1.5 s" in refused(turnstile)
    assert clock.waits == [1.5, 0.5]


def test_a_wait_that_ends_late_does_not_count(clock):
    turnstile = Turnstile(1, 1.5, 10)
    turnstile._enter()
    clock.meanwhile = [(4.0, lambda: None), (6.0, lambda: None)]
    assert "in 7.5 s" in refused(turnstile)
    assert clock.waits == [1.5] * 3


@pytest.mark.parametrize(("answered", "since"), [(True, 4.0), (False, 0.0)])
def test_a_place_after_somebody_who_was_answered_begins_anew(clock, monkeypatch, answered, since):
    noted = []
    monkeypatch.setattr(module, "heard", noted.append)
    turnstile = Turnstile(1, 5, 10)
    turnstile._enter()
    clock.meanwhile = [(4.0, lambda: turnstile._leave(answered))]
    with turnstile.turn():
        assert noted == [since]


def test_nobody_waits_for_ever(clock):
    turnstile = Turnstile(1, 1.5, 4)
    turnstile._enter()
    turnstile._waiting.extend(module._Place() for _ in range(9))
    clock.meanwhile = [(float(second), lambda: turnstile._leave(True)) for second in range(1, 9)]
    assert "in 4.0 s" in refused(turnstile)


def test_a_place_that_comes_with_the_last_moment_is_taken(clock):
    turnstile = Turnstile(1, 1.5, 10)
    turnstile._enter()
    clock.meanwhile = [(1.5, lambda: turnstile._leave(False))]
    with turnstile.turn():
        assert refused(turnstile)
    with turnstile.turn():
        pass


def test_an_error_leaves_the_place_to_the_next():
    turnstile = Turnstile(1, 1.5, 10)
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"), turnstile.turn():
            raise ValueError("bad")


def test_many_threads_come_through_one_by_one():
    turnstile = Turnstile(1, 20, 20)
    inside, most = [], []

    def work(number):
        with turnstile.turn():
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert (len(most), max(most)) == (200, 1)
    assert turnstile._free == 1
