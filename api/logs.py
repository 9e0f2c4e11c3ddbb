"""Request logs: one line a request, with its id."""

from __future__ import annotations

import re
import time
from uuid import uuid4

import structlog
from flask import Flask, Response, g, request

from api.service import Service

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_log = structlog.get_logger("api.requests")


def watch_requests(app: Flask, service: Service) -> None:
    """Give every request an id, and note what became of it."""

    def begin() -> None:
        given = request.headers.get("X-Request-ID", "")
        g.request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        g.started = time.perf_counter()
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=g.request_id)

    def end(response: Response) -> Response:
        seconds = time.perf_counter() - g.started
        route = request.url_rule.rule if request.url_rule else "none"
        service.metrics.note(route, request.method, response.status_code, seconds)
        response.headers["X-Request-ID"] = g.request_id
        principal = g.get("principal")
        # The path without its query: labels and names are the user's own business.
        _log.info(
            "request",
            method=request.method,
            path=request.path,
            status=response.status_code,
            milliseconds=round(seconds * 1000, 1),
            token=principal.token_id if principal else None,
        )
        return response

    app.before_request(begin)
    app.after_request(end)
