"""Answers that are errors, as the library's own errors."""

from __future__ import annotations

from typing import TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from skipmap.client.documents import Problem
from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused, SkipmapError

Answer = TypeVar("Answer", bound=BaseModel)

_TOKEN_HELP = "set SKIPMAP_TOKEN or give --token-file"
_BAD_INPUT = (400, 413, 414, 415, 422)
_GONE = (404, 410)


def error_of(response: httpx2.Response) -> SkipmapError:
    """The error that an answer outside 2xx stands for; the body has been read."""
    status, problem = response.status_code, _problem(response)
    text = _text(response, problem)
    if status == 401:
        return Refused(f"{text} ({_TOKEN_HELP})")
    if status in _BAD_INPUT:
        field = (problem and problem.field) or "request"
        return InvalidInput(field, text.removeprefix(f"{field}: "))
    if problem is None and (status in (*_GONE, 405) or 300 <= status < 400):
        moved = response.headers.get("location")
        hint = f"it points to {moved}; give that address" if moved else "is a Skipmap service there?"
        return ModelFailure(f"{response.url} {text}; {hint}")
    if status in _GONE:
        return NotFound(text)
    if status == 429 or status >= 500:
        return ModelFailure(text)
    return Refused(text)


def read(model: type[Answer], response: httpx2.Response) -> Answer:
    """The document that an answer holds; raises ModelFailure when it holds another one."""
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its body"
        raise ModelFailure(
            f"{response.url} answers something else than expected ({place}: {first['msg']}); is a Skipmap service "
            "there, and of this version?"
        ) from None


def _problem(response: httpx2.Response) -> Problem | None:
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        return Problem.model_validate_json(response.content)
    except ValidationError:
        return None


def _text(response: httpx2.Response, problem: Problem | None) -> str:
    if problem is None:
        return f"the server answers {response.status_code} {response.reason_phrase}".rstrip()
    text = (problem.detail or problem.title).rstrip(".")
    if problem.state and problem.state not in text:
        text = f"{text} (state: {problem.state})"
    if problem.status >= 500 and problem.request_id:
        text = f"{text} (request {problem.request_id})"
    return text
