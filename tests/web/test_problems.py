"""Problems as pages: every error says what went wrong and what to do, and tells nothing that it should not."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from api.problems import UNAVAILABLE, ProblemError
from models.errors import Conflict, KeyInUse, Stale, Unavailable
from skipmap.errors import InvalidInput, NotFound, Refused
from skipmap.maps.gate import GateRefused
from tests.web.site import Page, Site
from web.routes import PageRoute, register

ERRORS: list[tuple[Exception, int, str]] = [
    (InvalidInput("search.eps", "must be less than 1 (given: <b>2</b>)"), 422, "search.eps: must be less"),
    (NotFound("no job 'x'"), 404, "no job 'x'"),
    (Conflict("the job is cancelled", "cancelled"), 409, "the job is cancelled"),
    (Stale("the channel has moved on", 4), 412, "moved on"),
    (GateRefused({"qa": "metric 0.3 is below 0.4"}), 409, "metric 0.3 is below 0.4"),
    (Refused("no"), 409, "no"),
    (KeyInUse("still at work"), 409, "still at work"),
    (Unavailable("password=geheim host=db.internal"), 503, "the database does not answer"),
    (ProblemError(UNAVAILABLE, "too many streams", {"Retry-After": "7"}), 503, "too many streams"),
    (RuntimeError("geheim in a traceback"), 500, "the server failed"),
]


@pytest.fixture
def front(app) -> Flask:
    front: Flask = app.extensions["skipmap-pages"]
    front._got_first_request = False

    def fail(number: int) -> Any:
        raise ERRORS[number - 1][0]

    register(front, PageRoute("GET", "/t/<number:number>", "public", fail))
    return front


@pytest.mark.parametrize(("error", "status", "says"), ERRORS, ids=lambda given: type(given).__name__)
def test_errors_are_pages(front, site, error, status, says):
    path = f"/t/{[entry[0] for entry in ERRORS].index(error) + 1}"
    page = site.page(path, status)
    assert page.answer.mimetype == "text/html"
    assert says in page.text
    assert "geheim" not in page.text
    assert page.answer.headers["X-Request-ID"] in page.text
    assert not page.all("main b")
    assert len(page.all("main a")) >= 2


@pytest.mark.parametrize("headers", [{"X-Fragment": "part"}, {"X-Requested-With": "fetch"}])
def test_scripts_get_a_short_text(front, site, headers):
    answer = site.get("/t/1", headers=headers)
    assert answer.status_code == 422
    assert answer.get_json() == {
        "title": "A value cannot be used",
        "detail": "search.eps: must be less than 1 (given: <b>2</b>)",
        "field": "search.eps",
    }
    assert "geheim" not in site.get("/t/8", headers=headers).get_data(as_text=True)


def test_who_may_ask_again_is_told_when(front, site):
    assert site.get("/t/9").headers["Retry-After"] == "7"
    assert site.get("/t/8").headers["Retry-After"] == "2"


def test_a_wrong_method_names_the_right_one(site):
    answer = site.client.put("/account")
    assert answer.status_code == 405
    assert set(answer.headers["Allow"].replace(" ", "").split(",")) == {"GET", "HEAD"}
    assert Page(answer).heading == "This address does not take the method"


@pytest.mark.parametrize(
    "path", ["/nothing", "/jobs/x", "/maps/A%20B", "/%00", "/%ff", "/static/../web/app.py"]
)
def test_what_is_not_there_is_said_so(site, visitor, path):
    for person in (site, visitor):
        assert person.page(path, 404).heading == "There is no such thing"


def test_addresses_of_errors_are_shown_as_text(visitor):
    page = visitor.page("/<script>alert(1)</script>", 404)
    assert not [script for script in page.all("script") if "alert" in script.get_text()]


def test_an_error_page_that_fails_is_still_an_answer(front, site):
    def broken(*_: Any) -> str:
        raise RuntimeError("the template is broken")

    front.jinja_env.get_template = broken  # type: ignore[assignment]
    answer = site.get("/t/2")
    assert answer.status_code == 404
    assert "no job 'x'" in answer.get_data(as_text=True)


def test_the_database_may_be_away(make_app, make_site, monkeypatch):
    """Pages that need no session are there all the same; others say so."""
    app = make_app()
    site, visitor = make_site("viewer", app=app), Site(app.test_client())

    def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("away")

    monkeypatch.setattr("models.database.Database._repeated", away)
    assert visitor.get("/help").status_code == 200
    assert visitor.get("/sign-in").status_code == 200
    page = site.page("/account", 503)
    assert "the database does not answer" in page.text
    assert page.answer.headers["Retry-After"] == "2"
