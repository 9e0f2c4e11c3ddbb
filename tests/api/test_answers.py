"""What holds of every answer: problems, ids, headers, logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from sqlalchemy import text
from structlog.testing import capture_logs

from api.problems import KINDS
from models import queries


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/api/v1/jobs/", 404, "not-found"),
        ("PUT", "/api/v1/jobs", 405, "method-not-allowed"),
        ("OPTIONS", "/api/v1/jobs", 405, "method-not-allowed"),
        ("GET", "/api/v1/jobs", 401, "unauthorized"),
    ],
)
def test_every_error_is_a_problem(app, method, path, status, name):
    answer = app.test_client().open(path, method=method, headers={"X-Request-ID": "mine-1"})
    problem = json.loads(answer.data)
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")
    assert problem["type"] == f"urn:skipmap:problem:{name}"
    assert (problem["status"], problem["instance"]) == (status, path)
    assert problem["request_id"] == answer.headers["X-Request-ID"] == "mine-1"
    assert problem["title"]
    assert problem["detail"]
    if status == 405:
        assert {"GET", "POST"} <= set(answer.headers["Allow"].split(", "))


def test_kinds_of_problems_are_told_apart():
    assert len({kind.type for kind in KINDS}) == len(KINDS) == 18


@pytest.mark.parametrize("given", ["", "a b", "x" * 200, "a\u00e9"])
def test_a_bad_request_id_is_replaced(app, given):
    answer = app.test_client().get("/healthz", headers={"X-Request-ID": given})
    assert len(answer.headers["X-Request-ID"]) == 32


def test_headers_that_protect(caller):
    headers = caller.get("/jobs").headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"


def test_a_failure_tells_nothing_but_its_id(caller, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr("api.jobs.list_jobs", fail)
    with capture_logs() as logs:
        answer = caller.get("/jobs")
    assert (answer.status_code, answer.get_json()["type"]) == (500, "urn:skipmap:problem:internal")
    assert "secret" not in answer.text
    assert [entry["event"] for entry in logs] == ["request failed", "request"]


def test_a_statement_that_fails_is_not_shown(caller, monkeypatch):
    def broken(session, *_, **__):
        session.execute(text("SELECT nothing FROM nowhere"))

    monkeypatch.setattr("api.jobs.list_jobs", broken)
    answer = caller.get("/jobs")
    assert answer.status_code == 500
    assert "nowhere" not in answer.text
    assert queries.list_jobs is not broken


def test_a_request_is_one_line_without_secrets(caller):
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        caller.get("/jobs?label=a:b", headers={"X-Request-ID": "mine-2"})
    (line,) = logs
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/jobs", 200)
    assert (line["request_id"], line["token"]) == ("mine-2", caller.token_id)
    assert caller.secret not in str(line)


def test_the_guide_names_every_problem_and_metric(app):
    guide = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    assert all(f"`{kind.type}` | {kind.status} |" in guide for kind in KINDS)
    app.test_client().get("/healthz")
    lines = app.test_client().get("/metrics").text.splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert len(names) > 8
    assert {name for name in names if f"`{name}`" not in guide} == set()
