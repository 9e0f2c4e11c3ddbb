"""Forms that are sent slowly or cut short, to the pages as they are served."""

from __future__ import annotations

import http.client
import re
import socket
import time

import pytest

from tests.api.served import Served, serve

_STALL_SECONDS = 1.0
_URLENCODED = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data; boundary=edge"


@pytest.fixture
def served(database, settings, tmp_path):
    with serve(
        database,
        settings.database_url,
        tmp_path,
        "jobs:read",
        app="web.app:create_app()",
        body_seconds=_STALL_SECONDS,
    ) as server:
        yield server


@pytest.fixture
def headers(served: Served) -> dict[str, str]:
    """Those of somebody who has opened the page to sign in."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("GET", "/sign-in")
    answer = connection.getresponse()
    token = re.search(r'name="csrf_token" value="([^"]+)"', answer.read().decode())
    connection.close()
    assert token is not None
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0], "X-CSRF-Token": token[1]}


def _send(served: Served, headers: dict[str, str], *lines: str, body: bytes) -> tuple[int, str]:
    """Status and text of the answer to a form that is sent as it stands."""
    told = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(["POST /sign-in HTTP/1.1", "Host: localhost", *told, *lines, "", ""])
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize(
    ("kind", "framing", "body"),
    [
        (_URLENCODED, "Content-Length: 500", b"way="),
        (_PARTS, "Content-Length: 500", b"--edge\r\n"),
        (_PARTS, "Transfer-Encoding: chunked", b"ffffff\r\n--edge\r\n"),
    ],
)
def test_a_form_that_stalls_is_given_up(served, headers, kind, framing, body):
    began = time.monotonic()
    status, text = _send(served, headers, f"Content-Type: {kind}", framing, body=body)
    assert status == 408
    assert "took longer than 1 s" in text
    assert _STALL_SECONDS * 0.9 < time.monotonic() - began < 10


def test_a_form_of_nobody_that_stalls_is_given_up(served):
    headers = {"Origin": "http://localhost", "Content-Type": _URLENCODED, "Content-Length": "500"}
    began = time.monotonic()
    status, text = _send(served, headers, body=b"way=")
    assert status == 403
    assert "earlier session" in text
    assert time.monotonic() - began < 10


def test_malformed_chunks_are_refused(served, headers):
    lines = (f"Content-Type: {_URLENCODED}", "Transfer-Encoding: chunked")
    status, text = _send(served, headers, *lines, body=b"zz\r\n\r\n")
    assert status == 400
    assert "malformed" in text
    assert not [line for line in served.log if "Traceback" in line]


def test_what_a_proxy_would_say_is_believed_from_nobody_unless_the_settings_say_so(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    told = {"X-Forwarded-Proto": "https", "X-Forwarded-Ssl": "on", "SCRIPT_NAME": "/sign-in"}
    connection.request("GET", "/sign-in", headers=told)
    answer = connection.getresponse()
    page = answer.read().decode()
    connection.close()
    assert answer.status == 200
    assert answer.headers["Strict-Transport-Security"] is None
    assert "Secure" not in answer.headers["Set-Cookie"]
    assert 'href="/help"' in page
