"""The app as it is served: gunicorn with greenlets, from the committed configuration."""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Iterator

import pytest

from models.base import new_id
from models.control import set_priority
from models.submit import submit
from tests.api.served import Served, serve
from tests.models.bench import make_spec

_STREAMS = 40


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
    assert served.process.wait(timeout=10) == 0
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
