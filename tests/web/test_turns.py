from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue

import pytest

from api.problems import ProblemError
from web import turns as module
from web.turns import Turns


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture
def line_up(turns, monkeypatch):
    """Ask for a turn in a thread; comes back when the request waits in line."""
    waiting: Queue[Future[bool]] = Queue()

    class Announced(Future[bool]):
        def result(self, timeout=None):
            waiting.put(self)
            return super().result(timeout)

    def work(name, person):
        with turns.of(person):
            return name

    monkeypatch.setattr(module, "Future", Announced)
    with ThreadPoolExecutor(8) as pool:

        def act(name, person="ada"):
            asked = pool.submit(work, name, person)
            waiting.get(timeout=20)
            return asked

        yield act


def refused(asked):
    error = asked.exception(20)
    return (
        isinstance(error, ProblemError) and error.kind.status == 429 and error.headers == {"Retry-After": "1"}
    )


def test_of_many_the_first_and_the_last_are_done(turns, line_up):
    with turns.of("ada"):
        *others, last = [line_up(name) for name in "bcde"]
        assert [refused(asked) for asked in others] == [True] * 3
        assert not last.done()
    assert last.result(20) == "e"
    with turns.of("ada"):
        pass


def test_whoever_waited_keeps_others_waiting(turns, line_up):
    with turns.of("ada"):
        second = line_up("b")
        third = line_up("c")
    assert refused(second)
    assert third.result(20) == "c"


def test_nobody_waits_for_somebody_else(turns):
    with turns.of("ada"), turns.of("bob"):
        pass


def test_a_failure_passes_the_turn_on(turns, line_up):
    asked = []

    def fail():
        asked.append(line_up("b"))
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"), turns.of("ada"):
        fail()
    assert asked[0].result(20) == "b"
