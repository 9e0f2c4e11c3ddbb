"""Problems as pages: what went wrong, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import structlog
from flask import Flask, Response, request

from api.problems import register_errors
from skipmap.client.documents import Problem
from web.again import fields_to_send_again
from web.guard import FormTooLate, current_is_fetch
from web.rendering import FRAGMENT

_WHAT_TO_DO = {
    401: "Sign in, then try again.",
    403: "Ask an administrator if you should have this right.",
    404: "It may have been removed. Go back, or start from one of the lists above.",
    405: "Go back and use the page's own buttons.",
    409: "Load the page again to see how things stand, then decide.",
    412: "Load the page again to see what the others did, then decide.",
    413: "Send less, or ask whoever runs the service to raise the limit.",
    422: "Go back, correct it and send it again.",
    429: "Wait as long as it says, then try again.",
    500: "Try again. If it stays, give the request id to whoever runs the service.",
    503: "Try again in a few seconds. Nothing is lost.",
}
_log = structlog.get_logger(__name__)
_TITLES = {401: "You are signed out", 403: "You may not do this"}
"""Where the API speaks of tokens."""
_KEPT_HEADERS = ("Retry-After", "Allow")


def register_problem_pages(app: Flask) -> None:
    """Let every error of a request end as a page, or as a short text for a script."""
    register_errors(app)
    for handlers in app.error_handler_spec[None].values():
        for error, handler in list(handlers.items()):
            handlers[error] = _as_page(app, handler)


def _as_page(app: Flask, handler: Callable[..., Any]) -> Callable[[Any], Response]:
    def handle(error: Any) -> Response:
        answer: Response = handler(error)
        problem = Problem.model_validate_json(answer.get_data())
        kept = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        if FRAGMENT in request.headers or current_is_fetch():
            body = json.dumps({"title": problem.title, "detail": problem.detail, "field": problem.field})
            return Response(body, problem.status, kept, content_type="application/json")
        fields = fields_to_send_again() if isinstance(error, FormTooLate) else None
        try:
            page = app.jinja_env.get_template(
                "error.html" if fields is None else "sign_in/again.html"
            ).render(
                {
                    **_context(app),
                    "status": problem.status,
                    "title": _TITLES.get(problem.status, problem.title),
                    "detail": problem.detail,
                    "advice": _WHAT_TO_DO.get(problem.status, "Go back and try again."),
                    "fields": fields,
                }
            )
        except Exception:  # what has failed may be what every page needs
            _log.exception("an error page failed")
            body = f"{problem.status} {problem.title}: {problem.detail}\n"
            return Response(body, problem.status, kept, content_type="text/plain; charset=utf-8")
        return Response(page, problem.status, kept, content_type="text/html; charset=utf-8")

    return handle


def _context(app: Flask) -> dict[str, Any]:
    context: dict[str, Any] = {}
    app.update_template_context(context)
    return context
