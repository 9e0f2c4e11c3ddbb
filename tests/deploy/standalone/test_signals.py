from __future__ import annotations

import os
import signal
import time

import pytest

from deploy.standalone.signals import StopRequest


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_first_asks_and_second_hurries():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert not stop.asked
        send(signal.SIGTERM)
        assert stop.asked
        assert not stop.hurried
        send(signal.SIGINT)
        assert stop.hurried
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def heeding_hangups():
    """The tests themselves may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heeding_hangups")
def test_terminal_that_closes_does_not_hurry():
    with StopRequest() as stop:
        send(signal.SIGHUP)
        send(signal.SIGHUP)
        assert stop.asked
        assert not stop.hurried


def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            send(signal.SIGHUP)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGHUP, before)


def test_wait_ends_with_a_signal():
    with StopRequest() as stop:
        send(signal.SIGTERM)
        began = time.monotonic()
        stop.wait(60)
        assert time.monotonic() - began < 30
