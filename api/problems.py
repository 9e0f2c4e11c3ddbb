"""Problems: every error becomes problem details (RFC 9457) with a stable type and a request id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import structlog
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from models.database import Busy
from models.errors import Conflict, KeyInUse, KeyReused, Stale, TooSlow, Unavailable
from models.turnstile import Crowded
from skipmap.client.documents import Problem
from skipmap.errors import InvalidInput, NotFound, Refused
from skipmap.maps.channel import sequence_etag
from skipmap.maps.gate import GateRefused

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
_URN = "urn:skipmap:problem:"
_LINE = re.compile(r", line (\d+)$")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Kind:
    """A kind of problem: the last part of its type, its title and status."""

    name: str
    title: str
    status: int

    @property
    def type(self) -> str:
        """The stable address of the kind."""
        return _URN + self.name


BAD_REQUEST = Kind("bad-request", "The request cannot be read", 400)
UNAUTHORIZED = Kind("unauthorized", "A valid token is needed", 401)
FORBIDDEN = Kind("forbidden", "The token does not allow this", 403)
NOT_FOUND = Kind("not-found", "There is no such thing", 404)
METHOD_NOT_ALLOWED = Kind("method-not-allowed", "This address does not take the method", 405)
REQUEST_TIMEOUT = Kind("request-timeout", "The body did not come in time", 408)
CONFLICT = Kind("conflict", "The state does not allow this", 409)
KEY_IN_USE = Kind("key-in-use", "A request with this idempotency key is still at work", 409)
GATE_REFUSED = Kind("gate-refused", "The held-out check refuses a point", 409)
STALE = Kind("stale", "Somebody else was faster", 412)
TOO_LARGE = Kind("too-large", "The request is too large", 413)
UNSUPPORTED_MEDIA_TYPE = Kind("unsupported-media-type", "The body's type is not taken", 415)
INVALID_INPUT = Kind("invalid-input", "A value cannot be used", 422)
KEY_REUSED = Kind("key-reused", "The idempotency key came with another request", 422)
PRECONDITION_REQUIRED = Kind("precondition-required", "The change needs a condition", 428)
RATE_LIMITED = Kind("rate-limited", "Too many requests", 429)
INTERNAL = Kind("internal", "The server failed", 500)
UNAVAILABLE = Kind("unavailable", "The service cannot answer just now", 503)

KINDS = tuple(value for value in list(globals().values()) if isinstance(value, Kind))
_BY_STATUS = {kind.status: kind for kind in reversed(KINDS)}


class ProblemError(Exception):
    """A request ends with this problem."""

    def __init__(self, kind: Kind, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        self.kind = kind
        self.detail = detail
        self.headers = headers or {}
        self.more = more
        super().__init__(detail)


def problem_response(kind: Kind, detail: str, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """The answer for a problem; ``more``: further members."""
    document = Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=request.script_root + request.path,
        request_id=g.get("request_id"),
        **more,
    )
    body = document.model_dump_json(exclude_none=True)
    return Response(body, kind.status, headers, content_type=MEDIA_TYPE)


def register_errors(app: Flask) -> None:
    """Let every error of a request end as a problem."""
    app.register_error_handler(ProblemError, _from_problem)
    app.register_error_handler(InvalidInput, _from_invalid_input)
    app.register_error_handler(NotFound, lambda error: problem_response(NOT_FOUND, str(error)))
    app.register_error_handler(Conflict, _from_conflict)
    app.register_error_handler(KeyReused, lambda error: problem_response(KEY_REUSED, str(error)))
    app.register_error_handler(KeyInUse, _from_key_in_use)
    app.register_error_handler(Stale, _from_stale)
    app.register_error_handler(GateRefused, _from_gate)
    app.register_error_handler(Refused, lambda error: problem_response(CONFLICT, str(error)))
    app.register_error_handler(Unavailable, _from_unavailable)
    app.register_error_handler(HTTPException, _from_http)
    app.register_error_handler(Exception, _from_unexpected)


def _from_problem(error: ProblemError) -> Response:
    return problem_response(error.kind, error.detail, error.headers, **error.more)


def _from_invalid_input(error: InvalidInput) -> Response:
    line = _LINE.search(error.field)
    more: dict[str, Any] = {"line": int(line[1])} if line else {}
    return problem_response(INVALID_INPUT, str(error), field=error.field, **more)


def _from_conflict(error: Conflict) -> Response:
    return problem_response(CONFLICT, str(error), state=error.state)


def _from_stale(error: Stale) -> Response:
    headers = {} if error.sequence is None else {"ETag": sequence_etag(error.sequence)}
    return problem_response(STALE, str(error), headers, sequence=error.sequence)


def _from_gate(error: GateRefused) -> Response:
    return problem_response(GATE_REFUSED, str(error), domains=error.problems)


def _from_key_in_use(error: KeyInUse) -> Response:
    return problem_response(KEY_IN_USE, str(error), {"Retry-After": str(RETRY_SECONDS)})


def _from_unavailable(error: Unavailable) -> Response:
    # The cause may name addresses of the database: it is for the log alone.
    if isinstance(error, Busy):
        detail, what = "others are changing the same thing just now; try again shortly", "database busy"
    elif isinstance(error, Crowded):
        detail, what = (
            "no connection to the database came free in time: too much is asked at once, or it does not answer; "
            "try again shortly",
            "database crowded",
        )
    elif isinstance(error, TooSlow):
        detail, what = (
            "the database took too long over this; ask for less, or try again later",
            "database slow",
        )
    else:
        detail, what = "the database does not answer; try again shortly", "database away"
    _log.warning(what, cause=str(error))
    return problem_response(UNAVAILABLE, detail, {"Retry-After": str(RETRY_SECONDS)})


def _from_http(error: HTTPException) -> Response:
    kind = _BY_STATUS.get(error.code or 500, BAD_REQUEST if (error.code or 500) < 500 else INTERNAL)
    headers = {name: value for name, value in error.get_headers() if name in ("Allow", "Retry-After")}
    details = {
        404: f"there is nothing at {request.path}",
        405: f"{request.method} is not taken here; allowed: {headers.get('Allow', 'nothing')}",
        413: "the body is larger than the service takes",
    }
    return problem_response(kind, details.get(kind.status, error.description or kind.title), headers)


def _from_unexpected(error: Exception) -> Response:
    _log.error("request failed", exc_info=error)
    return problem_response(
        INTERNAL, "the server failed; give the request id to whoever runs it, who finds it in the log"
    )
