"""How a node begins and ends."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai
import pytest

from skipmap.errors import InvalidInput
from skipmap.serving.address import is_loopback
from skipmap.serving.node.server import bind
from tests.serving.node.conftest import SECONDS, fixed, wait_until


def ask(client, **more):
    return client.completions.create(model="tiny", prompt="the old man", **more)


def test_first_signal_lets_running_requests_finish(serve):
    served = serve(drain_seconds=SECONDS)
    served.hold.stop(2)
    with served.client as client, ThreadPoolExecutor(2) as pool:
        whole = pool.submit(ask, client, max_tokens=30)
        served.hold.reached(1)
        stream = pool.submit(lambda: [*ask(client, max_tokens=30, stream=True)])
        wait_until(lambda: served.node.engine.queue_length + served.node.engine.running == 2)
        served.server.handle_exit(signal.SIGTERM, None)
        wait_until(lambda: served.node.engine.is_draining)
        with pytest.raises(openai.InternalServerError) as refused:
            ask(client)
        assert (refused.value.status_code, refused.value.code) == (503, "shutting_down")
        assert httpx2.get(f"{served.url}/readyz").status_code == 503
        assert httpx2.get(f"{served.url}/healthz").status_code == 200
        served.hold.go()
        text = whole.result(SECONDS).choices[0].text
        parts = stream.result(SECONDS)
    assert "".join(part.choices[0].text for part in parts) == text
    assert parts[-1].choices[0].finish_reason == "length"
    served.thread.join(SECONDS)
    assert not served.thread.is_alive()


def test_what_does_not_finish_in_time_ends_with_an_error(serve):
    served = serve(drain_seconds=0.1)
    served.hold.stop(3)
    with served.client as client, ThreadPoolExecutor(2) as pool:
        stream = pool.submit(lambda: [*ask(client, max_tokens=300, stream=True)])
        served.hold.reached(4)
        whole = pool.submit(ask, client)
        wait_until(lambda: served.node.engine.queue_length == 1)
        served.server.handle_exit(signal.SIGINT, None)
        wait_until(lambda: served.node.engine._stopping)
        served.hold.go()
        with pytest.raises(openai.APIError, match="shutting down"):
            stream.result(SECONDS)
        with pytest.raises(openai.InternalServerError, match="shutting down"):
            whole.result(SECONDS)
    served.thread.join(SECONDS)
    assert not served.thread.is_alive()


def test_second_signal_ends_at_once(serve):
    served = serve(drain_seconds=SECONDS)
    served.hold.stop(2)
    with served.client as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, client, max_tokens=30)
        served.hold.reached(3)
        served.server.handle_exit(signal.SIGTERM, None)
        served.server.handle_exit(signal.SIGTERM, None)
        served.thread.join(SECONDS)
        assert not served.thread.is_alive()
        served.hold.go()
        with pytest.raises(openai.APIError):
            running.result(SECONDS)


def test_ready_without_a_map(serve):
    served = serve(source=fixed(None))
    answer = httpx2.get(f"{served.url}/readyz")
    assert answer.status_code == 200
    assert answer.json()["map"]["state"] == "NONE"
    with served.client as client:
        facts = ask(client, extra_body={"domain": "words"}).skipmap
    assert (facts["domain"], facts["skip"], facts["map_version"]) == (None, [], None)
    assert facts["note"] == "no map is in use; everything runs dense"


def test_dead_engine_is_not_healthy(serve):
    served = serve()
    served.node.engine.stop()
    assert httpx2.get(f"{served.url}/healthz").status_code == 503
    with served.client as client, pytest.raises(openai.InternalServerError, match="shutting down"):
        ask(client)


def test_address_in_use():
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"--port: cannot listen at 127.0.0.1 port {port}: .*in use"):
            bind("127.0.0.1", port)
    with pytest.raises(InvalidInput, match="--host: 'no such host' port 1 is no address"):
        bind("no such host", 1)


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_loopback(host, own):
    assert is_loopback(host) is own
