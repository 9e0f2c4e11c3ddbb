"""What a job found: the result document and the report page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from api.problems import CONFLICT, ProblemError
from api.requests import Query
from api.routes import Answer, Routes
from api.service import Service, current_service
from models.chunks import skip_key
from models.database import Database
from models.findings import finding
from models.parts import PROMPTS_A_PAGE
from models.queries import find_job, prompt_texts
from skipmap.errors import NotFound
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.report import render_report
from skipmap.profiling.report.environment import environment
from skipmap.skipset import SkipSet

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
    service = current_service()
    document = read_result(service, job_id)
    if query.per_prompt:
        pieces = _with_prompts(service.database, job_id, document)
        # The first rows are read before the answer begins, so that what can go wrong still gets a status of its own.
        return Response(chain([next(pieces)], pieces), content_type="application/json")
    return Response(_json(without_prompts(document)), content_type="application/json")


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
    """The stored result document of a job, without the per-prompt rows of ``evaluations``.

    Raises NotFound, and ProblemError with the state when there is none yet.
    """

    def read(session: Session) -> tuple[str, dict[str, Any] | None]:
        return find_job(session, job_id).job.state, finding(session, job_id, "result")

    state, payload = service.database.read(read)
    if payload is None:
        raise ProblemError(CONFLICT, f"job {job_id} is {state} and has no result", state=state)
    document: dict[str, Any] = payload["document"]
    return document


def _with_prompts(database: Database, job_id: str, document: Mapping[str, Any]) -> Iterator[str]:
    """The document as JSON, with the per-prompt rows of ``evaluations`` read page by page."""
    opening = "{"
    text = ""
    for name, value in document.items():
        text += f"{opening}{_json(name)}:"
        opening = ","
        if name != "evaluations":
            text += _json(value)
            continue
        page = max(1, PROMPTS_A_PAGE // max(1, document["data"]["n_calibration"]))
        text += "["
        for start in range(0, len(value), page):
            text += "," * (start > 0) + _rows(database, job_id, value[start : start + page])
            yield text
            text = ""
        text += "]"
    yield text + "}"


def _rows(database: Database, job_id: str, rows: Sequence[Mapping[str, Any]]) -> str:
    keys = [skip_key(SkipSet.of(row["skip"])) for row in rows]
    found = database.read(prompt_texts, job_id, keys)
    if len(found) < len(keys):
        raise NotFound(f"evaluations of job {job_id} are gone, for it is being removed")
    # The records are passed on as they are stored: to read and write gigabytes of them would take minutes.
    return ",".join(
        f'{_json(row)[:-1]},"per_prompt":{found[key]}}}' for row, key in zip(rows, keys, strict=True)
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
