"""What goes wrong with a request, in the shape in which OpenAI's clients expect it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipmap.errors import InvalidInput, SkipmapError

INVALID = "invalid_request_error"
RETRY_SECONDS = 1


class ApiProblem(Exception):
    """An error answer: HTTP status, and message, type, param and code of the document."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.document: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }


def invalid(error: InvalidInput) -> ApiProblem:
    """A request that cannot be answered as it is."""
    return ApiProblem(400, str(error), param=error.field)


def too_long(field: str, read: int, made: int, context: int, limit: str) -> ApiProblem:
    """A prompt of ``read`` tokens whose answer of ``made`` does not fit; ``limit``: the field that asks for those."""
    return ApiProblem(
        400,
        f"{field}: {read} tokens and {made} new ones pass the target's context of {context}; shorten it or lower "
        f"{limit}",
        param=field,
        code="context_length_exceeded",
    )


def no_model(asked: str, served: str) -> ApiProblem:
    """A model that this node does not serve."""
    return ApiProblem(
        404,
        f"model: {asked[:200]!r} is not served here; give {served!r}",
        param="model",
        code="model_not_found",
    )


def queue_full(waiting: int) -> ApiProblem:
    """More requests than may wait."""
    return ApiProblem(
        429,
        f"{waiting} answers wait already and no more may; try again later",
        kind="rate_limit_error",
        code="queue_full",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


def gone() -> ApiProblem:
    """The client has hung up; nobody reads this, but it is counted."""
    return ApiProblem(499, "the client has hung up", code="client_closed_request")


def shutting_down() -> ApiProblem:
    """The node takes no more work."""
    return ApiProblem(
        503,
        "this node is shutting down; try another one",
        kind="server_error",
        code="shutting_down",
        headers={"Retry-After": str(RETRY_SECONDS), "Connection": "close"},
    )


def no_memory() -> ApiProblem:
    """An answer that does not fit the memory that is left."""
    return ApiProblem(
        503,
        "too little memory for this request now; shorten the prompt, lower max_tokens, or try again later",
        kind="server_error",
        code="out_of_memory",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


def failed(error: BaseException) -> ApiProblem:
    """Something broke while the answer was made; only messages that are written for users are told."""
    told = (
        str(error)
        if isinstance(error, SkipmapError)
        else "an internal error ended this answer; see the node's log"
    )
    return ApiProblem(500, told, kind="server_error", code="internal_error")
