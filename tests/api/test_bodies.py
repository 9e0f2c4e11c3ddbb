"""Bodies that are cut short, malformed, slow or too large, sent to the app as it is served."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import statistics
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.api.served import Served, serve

_STALL_SECONDS = 1.0
_LINES = b'{"id": 1, "prompt": "One?"}\n{"id": 2, "prompt": "Two?"}\n'
_UPLOAD = "/api/v1/calibration-sets"
_JSON_LINES = "application/x-ndjson"
_JSON = "application/json"
_TAKES_BODY = ((_UPLOAD, _JSON_LINES), ("/api/v1/jobs", _JSON))
_MALFORMED = (
    b"zz\r\n\r\n",
    b"-1\r\nx\r\n",
    b"1\r\nxyz\r\n0\r\n\r\n",
    b"1\r\nx\r\n0\r\nno trailer\r\n\r\n",
)


@pytest.fixture
def served(database, settings, tmp_path):
    limits = {"body_seconds": _STALL_SECONDS, "upload_items": 60_000}
    with serve(database, settings.database_url, tmp_path, "jobs:read", "jobs:write", **limits) as server:
        yield server


def _send(served: Served, path: str, kind: str, framing: str, *pieces: bytes, end: bool = False):
    """The answer to a request that is sent as it stands, with its document; ``end``: say that nothing follows."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.secret}\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(f"{head}Content-Type: {kind}\r\n{framing}\r\n\r\n".encode() + b"".join(pieces))
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        document = json.loads(answer.read())
        # A connection whose place in the stream of requests is unknown is not used again.
        closed = connection.recv(1) == b"" if answer.status in (400, 408) else None
    return answer.status, document, closed


def test_a_body_that_is_cut_short_is_refused(served, bench):
    for path, kind in _TAKES_BODY:
        status, problem, closed = _send(served, path, kind, "Content-Length: 500", _LINES, end=True)
        assert (status, closed) == (400, True)
        assert f"cut short: {len(_LINES)} of 500 bytes came" in problem["detail"]
        chunk = b"400\r\n" + _LINES
        status, problem, closed = _send(served, path, kind, "Transfer-Encoding: chunked", chunk, end=True)
        assert (status, closed) == (400, True)
        assert "cut short" in problem["detail"]
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]


def test_malformed_chunks_are_refused(served):
    for (path, kind), body in itertools.product(_TAKES_BODY, _MALFORMED):
        status, problem, closed = _send(served, path, kind, "Transfer-Encoding: chunked", body)
        assert (status, problem["type"], closed) == (400, "urn:skipmap:problem:bad-request", True), body
    assert not [line for line in served.log if "Traceback" in line]


def test_a_body_that_stalls_is_given_up(served):
    stalls = (("Content-Length: 500", b"{"), ("Transfer-Encoding: chunked", b"ffffff\r\n{"))
    for (path, kind), (framing, body) in itertools.product(_TAKES_BODY, stalls):
        started = time.monotonic()
        status, problem, closed = _send(served, path, kind, framing, body)
        assert (status, problem["type"], closed) == (408, "urn:skipmap:problem:request-timeout", True)
        assert _STALL_SECONDS * 0.9 < time.monotonic() - started < 10


def test_clients_that_send_too_much_see_the_answer(served, tmp_path):
    for (path, kind), authorized in itertools.product(_TAKES_BODY, (True, False)):
        expected = 413 if authorized else 401
        body = bytes((17 if path == _UPLOAD else 2) << 20)
        headers = {"Content-Type": kind} | (served.authorization if authorized else {})
        address = f"http://127.0.0.1:{served.port}{path}"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=20)
        with caught.value as answer:
            assert (answer.code, json.load(answer)["status"]) == (expected, expected)
        file = tmp_path / "body"
        file.write_bytes(body)
        options = [option for name, value in headers.items() for option in ("-H", f"{name}: {value}")]
        command = ["curl", "-sS", "-w", "%{http_code}", "-o", "/dev/null", "--data-binary", f"@{file}"]
        ran = subprocess.run([*command, *options, address], capture_output=True, text=True, timeout=30)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, str(expected), "")


def test_large_tables_hold_up_nobody(served, database):
    """Upload, preview and submission of a set with as many rows as are taken, while somebody else asks for little."""
    table = "".join(f"Q{n}?,a,b,c,d,B\n" for n in range(60_000))
    spec = {
        "target": {"id": "smollm2-135m-instruct"},
        "draft": {"method": "prompt_lookup"},
        "domain": {"name": "mmlu"},
    }
    waits: list[float] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            started = time.monotonic()
            connection, answer = served.ask("/api/v1/jobs")
            assert (answer.status, answer.read()[:1]) == (200, b"{")
            connection.close()
            waits.append(time.monotonic() - started)
            done.wait(0.02)

    def send(method: str, path: str, kind: str, body: str | None = None) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
        connection.request(method, path, body, {"Content-Type": kind, **served.authorization})
        answer = connection.getresponse()
        document = json.load(answer)
        connection.close()
        assert answer.status < 300, document
        return document

    first, answer = served.ask("/api/v1/jobs")
    assert answer.status == 200
    first.close()
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        made = send("POST", _UPLOAD, "text/csv", table)
        assert made["items"] == 60_000
        page = send("GET", f"{_UPLOAD}/{made['id']}/items?limit=200", _JSON)
        assert len(page["items"]) == 200
        send(
            "POST", "/api/v1/jobs", _JSON, json.dumps(spec | {"calibration": {"source": f"set:{made['id']}"}})
        )
    finally:
        done.set()
        asking.join()
    print(f"{len(waits)} requests, median {statistics.median(waits):.3f} s, longest {max(waits):.3f} s")
    assert len(waits) > 20
    assert statistics.median(waits) < 0.3
    # Far below the seconds that each of the three calls takes, on a busy machine as well.
    assert max(waits) < 1.5


def test_control_characters_of_addresses_are_escaped_in_the_log(served):
    connection, answer = served.ask("/api/v1/%1b%5b31m%c2%9b%e2%80%ae")
    assert answer.status == 404
    answer.read()
    connection.close()
    deadline = time.monotonic() + 20
    while not (found := [line for line in served.log if "31m" in line]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert all(line.rstrip("\n").isprintable() for line in found)
    assert "/api/v1/\\u001b[31m\\u009b\\u202e" in found[0]
