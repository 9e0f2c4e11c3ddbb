"""The app as it is served: gunicorn with greenlets, from the committed configuration."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from models.accounts import create_token, create_user
from models.base import new_id
from models.control import set_priority
from models.submit import submit
from tests.models.bench import make_spec

ROOT = Path(__file__).resolve().parents[2]
_STREAMS = 40


@dataclass
class Served:
    """A running server and a token for it."""

    process: subprocess.Popen[str]
    port: int
    secret: str

    def ask(
        self, path: str, timeout: float = 20.0
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.secret}"})
        return connection, connection.getresponse()


@pytest.fixture
def served(database, settings, tmp_path) -> Iterator[Served]:
    def work(session):
        user = create_user(session, "somebody")
        return create_token(session, user.id, "a token", ["jobs:read"])[1]

    secret = database.transaction(work)
    environment = os.environ | {
        "SKIPMAP_DATABASE_URL": settings.database_url,
        "SKIPMAP_HOME": str(tmp_path),
        "SKIPMAP_PORT": "0",
        "SKIPMAP_API_WORKERS": "1",
        "SKIPMAP_EVENT_POLL_SECONDS": "0.05",
    }
    command = [sys.executable, "-m", "gunicorn", "--config", "api/gunicorn.conf.py", "api.app:create_app()"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    log = iter(process.stderr)
    try:
        port = next(int(found[1]) for line in log if (found := re.search(r"Listening at: \S+:(\d+)", line)))
        yield Served(process, port, secret)
    finally:
        process.terminate()
        process.communicate(timeout=30)


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
