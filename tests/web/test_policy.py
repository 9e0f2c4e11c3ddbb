"""Headers of every answer, and markup that fits them."""

from __future__ import annotations

import re

import pytest

from tests.web.test_guard import ROUTES, address, named
from web.policy import POLICY

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_CACHED = re.compile(r"no-store|private, no-cache|(public|private), max-age=31536000, immutable")
GETS = [route for route in ROUTES if route.method == "GET"]


def test_the_policy_lets_in_nothing_from_elsewhere():
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "font-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.parametrize("route", GETS, ids=named)
def test_every_answer_has_the_headers(route, site, visitor):
    for person in (site, visitor):
        answer = person.get(address(route))
        assert {name: answer.headers.get(name) for name in _ALWAYS} == _ALWAYS
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert _CACHED.fullmatch(answer.headers["Cache-Control"])
        assert "Server" not in answer.headers
        assert answer.headers["X-Request-ID"]
        if person is site and answer.headers["Cache-Control"].startswith("private"):
            assert "Cookie" in answer.headers["Vary"]


@pytest.mark.parametrize("path", ["/nothing", "/admin/users/x/y", "/jobs//", "/%00", "/..%2f..%2fetc/passwd"])
def test_errors_have_them_as_well(site, path):
    answer = site.get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert {name: answer.headers.get(name) for name in _ALWAYS} == _ALWAYS


@pytest.mark.parametrize("route", GETS, ids=named)
def test_markup_needs_no_exception_from_the_policy(route, site):
    page = site.page(address(route), site.get(address(route)).status_code)
    if not page.answer.mimetype.startswith("text/html"):
        return
    for element in page.all("*"):
        assert not element.has_attr("style"), element
        assert not [name for name in element.attrs if name.startswith("on")], element
        assert element.name not in ("style", "iframe", "object", "embed", "base"), element
        if element.name == "script":
            assert element.get("src", "").startswith("/static/") or element.get("type") == "application/json"
        for name in ("href", "src", "action"):
            value = str(element.get(name, ""))
            assert not re.match(r"(javascript|vbscript):|https?://(?!127\.0\.0\.1|localhost)", value), element


def test_https_stays_https(visitor):
    assert "Strict-Transport-Security" not in visitor.get("/help").headers
    answer = visitor.get("/help", base_url="https://localhost")
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_the_apis_answers_keep_their_own(visitor):
    answer = visitor.get("/api/v1/docs")
    assert answer.status_code == 200
    assert answer.headers["Content-Security-Policy"] != POLICY
    assert visitor.get("/healthz").status_code == 200
