from __future__ import annotations

from deploy.standalone.errors import ServerFailed
from deploy.standalone.restarts import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, STEADY_SECONDS, Watch


class Lamp:
    """A part that burns until it is put out."""

    name = "lamp"

    def __init__(self) -> None:
        self.is_running = False
        self.starts = 0
        self.is_broken = False

    def start(self) -> None:
        self.starts += 1
        if self.is_broken:
            raise ServerFailed("no oil")
        self.is_running = True

    def how_it_ended(self) -> str:
        return "went out"


def burning() -> tuple[Lamp, Watch]:
    lamp = Lamp()
    watch = Watch(lamp)
    watch.start(0.0)
    return lamp, watch


def put_out(lamp: Lamp, watch: Watch, now: float) -> float:
    """Put the lamp out, and give the time at which it burns again."""
    lamp.is_running = False
    assert watch.tick(now)
    before = lamp.starts
    again = now
    while lamp.starts == before:
        again += 0.25
        watch.tick(again)
    return again


def test_nothing_to_say_while_it_runs():
    lamp, watch = burning()
    assert watch.tick(1.0) is None
    assert lamp.starts == 1


def test_says_what_happened_and_what_will():
    lamp, watch = burning()
    lamp.is_running = False
    assert watch.tick(5.0) == "lamp went out; it starts again in 1 s"
    assert watch.tick(5.5) is None
    assert watch.tick(5.0 + FIRST_PAUSE_SECONDS) == "lamp was started again"
    assert lamp.is_running


def test_pauses_double_up_to_a_limit():
    lamp, watch = burning()
    now, pauses = 1.0, []
    for _ in range(8):
        again = put_out(lamp, watch, now)
        pauses.append(again - now)
        now = again + 0.25
    assert pauses == [1, 2, 4, 8, 16, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    assert watch.ends == 8


def test_what_ran_for_long_begins_with_a_short_pause():
    lamp, watch = burning()
    now = 1.0
    for _ in range(3):
        now = put_out(lamp, watch, now)
    assert put_out(lamp, watch, now + STEADY_SECONDS) == now + STEADY_SECONDS + FIRST_PAUSE_SECONDS
    assert watch.ends == 1


def test_failed_start_is_tried_again():
    lamp, watch = burning()
    lamp.is_running, lamp.is_broken = False, True
    watch.tick(1.0)
    assert watch.tick(2.0) == "lamp did not start: no oil; it starts again in 2 s"
    lamp.is_broken = False
    assert watch.tick(4.0) == "lamp was started again"
