"""Bodies of forms: too slow, cut short, malformed or too large, and those that nobody may send."""

from __future__ import annotations

import http.client
import io
import re
import socket
import time

import pytest

from tests.api.served import Served, serve
from tests.web.site import Page, Site, with_cookie
from tests.web.test_guard import TOKEN, address, posts
from web.guard import CSRF, CSRF_FIELD, CSRF_HEADER

_STALL_SECONDS = 1.0
_URLENCODED = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data; boundary=edge"
_ITEM = '{"id": 1, "prompt": "One?", "reference": "a"}'


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


def _send(
    served: Served, headers: dict[str, str], *lines: str, body: bytes, end: bool = False
) -> tuple[int, str]:
    """Status and text of the answer to a form that is sent as it stands; ``end``: say that nothing follows."""
    told = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(["POST /sign-in HTTP/1.1", "Host: localhost", *told, *lines, "", ""])
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        if end:
            connection.shutdown(socket.SHUT_WR)
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


@pytest.mark.parametrize(
    ("kind", "framing", "body", "said"),
    [
        (_URLENCODED, "Content-Length: 500", b"way=token&token=x", "cut short: 17 of 500 bytes came"),
        (_PARTS, "Content-Length: 500", b"--edge\r\n", "cut short: 8 of 500 bytes came"),
        (_PARTS, "Transfer-Encoding: chunked", b"400\r\n--edge\r\n", "cut short"),
        (_PARTS, "Transfer-Encoding: chunked", b"8\r\n--edge\r\n\r\n0\r\n\r\n", "cut short"),
    ],
)
def test_a_form_that_is_cut_short_is_refused(served, headers, kind, framing, body, said):
    for told in (headers, {"Cookie": headers["Cookie"]}):
        status, text = _send(served, told, f"Content-Type: {kind}", framing, body=body, end=True)
        assert status == 400
        assert said in text
        assert "earlier session" not in text
    assert not [line for line in served.log if "Traceback" in line]


def _parts(*fields: tuple[str, str, str]) -> bytes:
    """A form of fields by name, what else is said of them, and value."""
    written = [
        f'--edge\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'
        for name, more, value in fields
    ]
    return ("".join(written) + "--edge--\r\n").encode()


def _send_parts(site: Site, body: bytes, length: int, **headers: str) -> Page:
    environ = {
        "wsgi.input": io.BytesIO(body),
        "wsgi.input_terminated": True,
        "CONTENT_TYPE": _PARTS,
        "CONTENT_LENGTH": str(length),
    }
    return Page(site.client.post("/calibration-sets", environ_overrides=environ, headers=headers))


@pytest.mark.parametrize("token_in", ["header", "first field", "last field"])
def test_an_upload_is_stored_whole_or_not_at_all(site, bench, token_in):
    csrf, file = (CSRF_FIELD, "", site.csrf), ("file", '; filename="a.jsonl"', f"{_ITEM}\n")
    fields = {"header": [file], "first field": [csrf, file], "last field": [file, csrf]}[token_in]
    headers = {CSRF_HEADER: site.csrf} if token_in == "header" else {}
    body = _parts(*fields)
    # Within the line that ends the form, the last time.
    for end in (0, 4, 20, len(body) // 2, body.rindex(b"}") + 1, len(body) - 6):
        for length in (len(body), end):
            page = _send_parts(site, body[:end], length, **headers)
            assert (page.status, "cut short" in page.text) == (400, True), (end, length, page.text)
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]
    assert _send_parts(site, body, len(body), **headers).status == 303
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [1]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"--edge--"),
        ("multipart/form-data; boundary=\u00e4", b"--edge--"),
        (_PARTS, b"--edge\r\nContent-Type: text/plain\r\n\r\nx\r\n--edge--\r\n"),
        (_URLENCODED, b"name=\xff"),
    ],
)
def test_what_is_no_form_is_said_to_be_none(site, kind, body):
    page = Page(site.client.post("/sign-out", data=body, content_type=kind, headers={CSRF_HEADER: site.csrf}))
    assert (page.status, "no well-formed form" in page.text) == (400, True)
    assert site.get("/account").status_code == 200


def test_a_late_form_that_is_cut_short_is_not_shown_once_more(app):
    site = with_cookie(app, **{CSRF: "a token"})
    body = _parts(("name", "", "typed"))[:-6]
    page = _send_parts(site, body, len(body), Origin="http://localhost")
    assert page.status == 401
    assert not page.all('input[name="name"]')


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


def test_bodies_are_capped(make_app, make_site):
    site = make_site("admin", app=make_app(body_bytes=1024, upload_bytes=4096))
    fits, over = "x" * 1500, "x" * 3000
    assert site.post("/admin/users", {"name": fits}).status_code == 422
    assert site.post("/admin/users", {"name": over}).status_code == 413
    assert site.post("/calibration-sets", {"name": over}).status_code == 413
    file = {"file": (io.BytesIO(b"{}" * 1500), "x.jsonl")}
    assert site.post("/calibration-sets", file).status_code == 422


class Untouched:
    """A body that must not be read."""

    def read(self, size: int = -1) -> bytes:
        raise AssertionError("the body was read")


def send_untouched(site: Site, path: str, kind: str, length: int | None) -> int:
    """Status of the answer to a form whose body must not be read; ``length``: None where it comes in chunks."""
    environ = {"wsgi.input": Untouched(), "wsgi.input_terminated": True, "CONTENT_TYPE": kind}
    if length is not None:
        environ["CONTENT_LENGTH"] = str(length)
    headers = {"Origin": "http://localhost"}
    return site.client.post(path, environ_overrides=environ, headers=headers).status_code


@pytest.mark.parametrize("path", [address(route) for route in posts() if route.upload])
@pytest.mark.parametrize("length", [16 << 20, None])
def test_the_body_of_who_may_send_none_is_not_read(app, make_site, path, length):
    people = {
        "no cookie": Site(app.test_client()),
        "no session": with_cookie(app, **{CSRF: TOKEN}),
        "no right": make_site("viewer"),
    }
    kind = "multipart/form-data; boundary=edge"
    found = {what: send_untouched(site, path, kind, length) for what, site in people.items()}
    assert found == {"no cookie": 403, "no session": 401, "no right": 403}


def test_a_late_form_is_read_only_while_it_is_small(app):
    late = with_cookie(app, **{CSRF: TOKEN})
    page = Page(late.post("/jobs/new", {"name": "typed"}, headers={"Origin": "http://localhost"}))
    assert page.one('input[name="name"]')["value"] == "typed"
    for length in (200_001, None):
        assert send_untouched(late, "/jobs/new", "application/x-www-form-urlencoded", length) == 401
