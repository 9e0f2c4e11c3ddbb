"""Long polls of channels."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.errors import Unavailable
from tests.api.published import CHANNEL


@pytest.fixture
def waiting(app):
    """Wait until so many requests wait for a move."""
    hub = app.extensions["skipmap"].channels

    def wait(number):
        deadline = time.monotonic() + 10
        while hub.waiting != number:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    return wait


@pytest.fixture
def later(waiting):
    """Send a request from another thread, and go on when it waits; its answer and seconds."""
    with ThreadPoolExecutor(8) as pool:

        def send(caller, *, seconds=30, number=1, **headers):
            def ask():
                started = time.monotonic()
                answer = caller.get(CHANNEL, headers={"Prefer": f"wait={seconds}", **headers})
                return answer, time.monotonic() - started

            sent = pool.submit(ask)
            waiting(number)
            return sent

        yield send


def fetched(shop, **headers):
    return shop.publisher.get(CHANNEL, headers=headers)


def test_a_long_poll_is_answered_when_the_channel_moves(shop, later):
    for _ in range(2):
        shop.publish()
    shop.move(1)
    etag = fetched(shop).headers["ETag"]
    sent = [later(shop.publisher, number=number, **{"If-None-Match": etag}) for number in (1, 2, 3)]
    started = time.monotonic()
    shop.move(2, at=1)
    for answer, _ in (each.result(10) for each in sent):
        assert (answer.status_code, shop.opened(answer).version) == (200, 2)
        assert answer.headers["Preference-Applied"] == "wait=30"
    assert time.monotonic() - started < 3


def test_a_long_poll_without_news_ends_in_time(shop, later):
    shop.publish()
    shop.move(1)
    etag = fetched(shop).headers["ETag"]
    answer, seconds = later(shop.publisher, seconds=1, **{"If-None-Match": etag}).result(10)
    assert (answer.status_code, answer.headers["ETag"]) == (304, etag)
    assert 0.9 < seconds < 5


def test_who_has_something_else_is_answered_at_once(shop):
    shop.publish()
    shop.move(1)
    for headers in ({}, {"If-None-Match": '"other"'}):
        answer = fetched(shop, Prefer="respond-async, wait=600", **headers)
        assert (answer.status_code, answer.headers["Preference-Applied"]) == (200, "wait=55")
    etag = fetched(shop).headers["ETag"]
    for prefer in ("wait=-1", "wait=soon", "waiting=5", "wait=0"):
        answer = fetched(shop, Prefer=prefer, **{"If-None-Match": etag})
        assert answer.status_code == 304
        assert answer.headers.get("Preference-Applied") == ("wait=0" if prefer == "wait=0" else None)
    assert shop.publisher.get("/maps/main/channels/none", headers={"Prefer": "wait=9"}).status_code == 404


def test_sealing_anew_wakes_who_waits(shop, later):
    shop.publish()
    shop.move(1)
    first = fetched(shop)
    sent = later(shop.publisher, **{"If-None-Match": first.headers["ETag"]})
    shop.age(13)
    answer, _ = sent.result(10)
    assert answer.status_code == 200
    assert shop.opened(answer).expires_at > shop.opened(first).expires_at


def test_who_waits_never_gets_something_older(app, shop, later, monkeypatch):
    """The poller has seen less than a request that began later."""
    for _ in range(3):
        shop.publish()
    shop.move(1)
    hub = app.extensions["skipmap"].channels
    seen = threading.Event()
    held = threading.Event()

    def slow(places, marks=hub._envelopes.marks):
        found = marks(places)
        if seen.is_set():
            held.wait(10)
        return found

    first = later(shop.publisher, **{"If-None-Match": fetched(shop).headers["ETag"]})
    monkeypatch.setattr(hub._envelopes, "marks", slow)
    seen.set()
    shop.move(2, at=1)
    second = later(shop.publisher, seconds=1, number=2, **{"If-None-Match": fetched(shop).headers["ETag"]})
    held.set()
    assert shop.opened(first.result(10)[0]).version == 2
    assert second.result(10)[0].status_code == 304


def test_long_polls_outlive_a_poll_that_fails(app, shop, later, monkeypatch):
    for _ in range(2):
        shop.publish()
    shop.move(1)
    envelopes = app.extensions["skipmap"].envelopes
    failed = threading.Event()

    def fail(places):
        failed.set()
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(envelopes, "marks", fail)
        sent = later(shop.publisher, **{"If-None-Match": fetched(shop).headers["ETag"]})
        assert failed.wait(10)
        shop.move(2, at=1)
    assert shop.opened(sent.result(10)[0]).version == 2


def test_a_long_poll_that_nobody_looked_for_is_not_told_that_nothing_is_new(app, shop, later, monkeypatch):
    """The database is away for the poller, and the channel moves: the fetch at the end sees it."""
    for _ in range(2):
        shop.publish()
    shop.move(1)
    etag = fetched(shop).headers["ETag"]
    envelopes = app.extensions["skipmap"].envelopes

    def away(places):
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(envelopes, "marks", away)
    sent = later(shop.publisher, seconds=1, **{"If-None-Match": etag})
    shop.move(2, at=1)
    answer, _ = sent.result(10)
    assert (answer.status_code, shop.opened(answer).version) == (200, 2)

    def gone(map_name, channel):
        raise Unavailable("the database does not answer")

    sent = later(shop.publisher, seconds=1, **{"If-None-Match": answer.headers["ETag"]})
    monkeypatch.setattr(envelopes, "current", gone)
    assert sent.result(10)[0].status_code == 503


def test_a_long_poll_does_not_outlive_what_it_holds(shop, later, tmp_path):
    """The envelope expires meanwhile, and nobody here can seal another one."""
    shop.publish()
    shop.move(1)
    etag = fetched(shop).headers["ETag"]
    (tmp_path / "home" / "signing-key.pem").rename(tmp_path / "hidden")
    sent = later(shop.publisher, seconds=3, **{"If-None-Match": etag})
    shop.age(25)
    assert sent.result(10)[0].status_code == 503


def test_there_is_a_most_of_long_polls(shop, make_app, make_caller):
    shop.publish()
    shop.move(1)
    app = make_app(long_polls=1)
    caller = make_caller("maps:read", app=app)
    hub = app.extensions["skipmap"].channels
    headers = {"Prefer": "wait=30", "If-None-Match": caller.get(CHANNEL).headers["ETag"]}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(caller.get, CHANNEL, headers=headers)
        deadline = time.monotonic() + 10
        while not hub.waiting:
            assert time.monotonic() < deadline
        began = time.monotonic()
        second = caller.get(CHANNEL, headers=headers)
        assert (second.status_code, "Preference-Applied" in second.headers) == (304, False)
        assert time.monotonic() - began < 10
        assert hub.waiting == 1
        # It is about to end: then nobody waits.
        hub.stopping = lambda: True
        assert first.result(10).status_code == 304
    assert hub.waiting == 0
    assert "skipmap_long_polls" in app.test_client().get("/metrics").text
