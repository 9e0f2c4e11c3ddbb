"""The app as it is served: gunicorn with greenlets, from the committed configuration."""

from __future__ import annotations

import http.client
import json
import re
import signal
import time
from collections.abc import Iterator

import pytest

from models.base import new_id
from models.control import set_priority
from models.submit import submit
from skipmap.client.client import Client
from skipmap.client.maps import JobPoint, MoveRequest, PublishRequest
from skipmap.client.server import Server
from skipmap.errors import Refused
from skipmap.maps.channel import read_payload
from skipmap.maps.envelope import open_envelope
from skipmap.maps.keys import DEFAULT_KEY_FILE, new_key_file
from tests.api.published import CHANNEL, SKIP, Shop
from tests.api.served import Served, serve
from tests.models.bench import make_spec

_STREAMS = 40
_WAITING = 300


@pytest.fixture
def served(database, settings, tmp_path) -> Iterator[Served]:
    with serve(database, settings.database_url, tmp_path, "jobs:read") as server:
        yield server


def _status(served: Served, path: str) -> int:
    connection, response = served.ask(path)
    response.read()
    connection.close()
    return response.status


def _event(response: http.client.HTTPResponse) -> dict[str, str]:
    """The next event of a stream."""
    fields: dict[str, str] = {}
    while line := response.readline().decode():
        if line == "\n" and fields:
            return fields
        if ": " in line and not line.startswith(":"):
            name, value = line.rstrip("\n").split(": ", 1)
            fields[name] = value
    raise EOFError


def test_streams_hold_up_nobody_and_end_when_the_server_does(served, database):
    job, _ = database.transaction(submit, make_spec(), new_id())
    streams = [served.ask(f"/api/v1/jobs/{job.id}/events") for _ in range(_STREAMS)]
    assert {_event(response)["id"] for _, response in streams} == {"1"}
    connection, response = served.ask(f"/api/v1/jobs/{job.id}")
    assert (response.status, json.load(response)["priority"]) == (200, 5)
    connection.close()
    database.transaction(set_priority, job.id, 9)
    for _, response in streams:
        event = _event(response)
        assert (event["id"], json.loads(event["data"])["priority"]) == ("2", 9)
    started = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    for connection, response in streams:
        assert response.read() == b""
        connection.close()
    assert served.process.wait(timeout=30) == 0
    assert time.monotonic() - started < 8


def test_a_request_does_not_wait_for_one_that_waits_for_the_database(served, database):
    """With greenlets a slow statement holds up its own request alone."""
    job, _ = database.transaction(submit, make_spec(), new_id())
    with database.engine.begin() as blocker:
        blocker.exec_driver_sql("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        connection.request(
            "GET", f"/api/v1/jobs/{job.id}", headers={"Authorization": f"Bearer {served.secret}"}
        )
        assert _status(served, "/api/v1/me") == 200
        started = time.monotonic()
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Type"]) == (503, "application/problem+json")
        assert answer.headers["Retry-After"]
        assert time.monotonic() - started < 5
        answer.read()
        connection.close()
    deadline = time.monotonic() + 20
    while _status(served, f"/api/v1/jobs/{job.id}") != 200:
        assert time.monotonic() < deadline


@pytest.fixture
def publisher(database, settings, tmp_path):
    """A server that has a signing key, and jobs to publish, for the library's client."""
    keys = new_key_file(tmp_path / DEFAULT_KEY_FILE)
    scopes = ("maps:read", "maps:publish", "nodes:report")
    limits = {"reads_per_minute": 100_000}
    with (
        serve(database, settings.database_url, tmp_path, *scopes, **limits) as server,
        Client(Server(f"http://127.0.0.1:{server.port}", server.secret)) as client,
    ):
        yield server, client, keys


def _publish(client: Client, *jobs: str) -> int:
    request = PublishRequest(jobs=[JobPoint(job=job) for job in jobs])
    return client.maps.publish("main", request).version


def test_the_client_publishes_moves_and_reads(publisher, bench):
    _, client, keys = publisher
    shop = Shop(bench, None, keys)
    qa, math = shop.job(), shop.job("math")
    assert [_publish(client, qa), _publish(client, qa, math)] == [1, 2]
    assert client.maps.sequence("main", "production") is None
    first = client.maps.move("main", "production", MoveRequest(version=1, reason="go"), None)
    assert client.maps.sequence("main", "production") == first.sequence == 1
    client.maps.move("main", "production", MoveRequest(version=2, reason="more"), 1)
    with pytest.raises(Refused, match="seq-2"):
        client.maps.move("main", "production", MoveRequest(version=1, reason="late"), 1)
    payload = read_payload(open_envelope(client.maps.envelope("main", "production"), keys.trusted()))
    assert payload.document.encode() == client.maps.document("main", 2)
    assert payload.map_document().skip_for("math").to_list() == SKIP
    assert client.maps.diff("main", 1, 2).added == ("math",)
    assert [move.to_version for move in client.maps.history("main", "production")] == [2, 1]
    assert [view.version for view in client.maps.versions("main")] == [2, 1]
    assert [view.name for view in client.maps.all()] == ["main"]
    assert client.maps.get("main").channels == client.maps.channels("main")


def test_long_polls_hold_up_nobody_and_end_when_the_server_does(publisher, bench):
    server, client, keys = publisher
    job = Shop(bench, None, keys).job()
    for _ in range(3):
        _publish(client, job)
    client.maps.move("main", "production", MoveRequest(version=1, reason="go"), None)

    def wait_all(etag: str) -> list[http.client.HTTPConnection]:
        headers = {**server.authorization, "Prefer": "wait=50", "If-None-Match": etag}
        connections = []
        for _ in range(_WAITING):
            connections.append(http.client.HTTPConnection("127.0.0.1", server.port, timeout=90))
            connections[-1].request("GET", f"/api/v1{CHANNEL}", headers=headers)
        deadline = time.monotonic() + 60
        while f'skipmap_long_polls{{process="{_pid(server)}"}} {_WAITING}.0' not in _metrics(server):
            assert time.monotonic() < deadline
        return connections

    connection, answer = server.ask(f"/api/v1{CHANNEL}")
    answer.read()
    connection.close()
    connections = wait_all(answer.headers["ETag"])
    started = time.monotonic()
    client.maps.move("main", "production", MoveRequest(version=2, reason="more"), 1)
    etags = set()
    for connection in connections:
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["payloadType"]) == (
            200,
            "application/vnd.skipmap.channel+json",
        )
        etags.add(answer.headers["ETag"])
        connection.close()
    seconds = time.monotonic() - started
    print(f"{_WAITING} long polls answered after {seconds:.2f} s")
    assert seconds < 5
    connections = wait_all(etags.pop())
    assert not etags
    server.process.send_signal(signal.SIGTERM)
    assert {connection.getresponse().status for connection in connections} == {304}
    for connection in connections:
        connection.close()
    assert server.process.wait(timeout=30) == 0


def _metrics(served: Served) -> str:
    connection, answer = served.ask("/metrics")
    text = answer.read().decode()
    connection.close()
    return text


def _pid(served: Served) -> str:
    """Of the worker process."""
    found = re.search(r'skipmap_long_polls\{process="(\d+)"\}', _metrics(served))
    assert found is not None
    return found[1]
