"""What a job found: the result document and the report page."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from api.problems import CONFLICT, ProblemError
from api.requests import Query
from api.routes import Answer, Routes
from api.service import Service, current_service
from models.findings import finding
from models.queries import find_job
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.report import render_report
from skipmap.profiling.report.environment import environment

routes = Routes("jobs")


class ResultQuery(Query):
    """How much of the document."""

    per_prompt: bool = False


@routes.add(
    "GET",
    "/jobs/<id:job_id>/result",
    access="jobs:read",
    query=ResultQuery,
    answers={200: Answer("A document of the form skipmap.result/1", dict[str, Any])},
    problems=(409,),
)
def get_result(job_id: str, query: ResultQuery) -> Response:
    """The result document of a job that has succeeded."""
    document = read_result(current_service(), job_id)
    if not query.per_prompt:
        document = without_prompts(document)
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Response(body, content_type="application/json")


@routes.add(
    "GET",
    "/jobs/<id:job_id>/report",
    access="jobs:read",
    answers={200: Answer("A self-contained page", media=("text/html",))},
    problems=(409,),
)
def get_report(job_id: str) -> Response:
    """A page about the result: layers, Pareto front, held-out check, samples."""
    page = render_report([read_result(current_service(), job_id)])
    response = Response(page, content_type="text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = report_policy()
    return response


def read_result(service: Service, job_id: str) -> dict[str, Any]:
    """The result document of a job; raises NotFound, and ProblemError with the state when there is none yet."""

    def read(session: Session) -> tuple[str, dict[str, Any] | None]:
        return find_job(session, job_id).job.state, finding(session, job_id, "result")

    state, payload = service.database.read(read)
    if payload is None:
        raise ProblemError(CONFLICT, f"job {job_id} is {state} and has no result", state=state)
    document: dict[str, Any] = payload["document"]
    return document


@cache
def report_policy() -> str:
    """The content security policy of the report: its own script and nothing else that runs."""
    script = environment().from_string('<script>\n{% include "script.js" %}\n</script>').render()
    inner = script.removeprefix("<script>").removesuffix("</script>")
    digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
