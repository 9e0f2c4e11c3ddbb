"""Requests: query parameters and JSON bodies, read strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import UnionType
from typing import IO, Any, Union, get_args, get_origin

from flask import request
from gunicorn.http.errors import ParseException
from pydantic import BaseModel, ConfigDict, ValidationError

from api.greenlets import within
from api.problems import BAD_REQUEST, REQUEST_TIMEOUT, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, ProblemError
from api.service import current_service
from skipmap.canonical import bad_text
from skipmap.errors import InvalidInput, choices
from skipmap.spec import JobSpec

_SHOWN_CHARACTERS = 80
_PIECE_BYTES = 1 << 16
_KEY_CHARACTERS = 255


class Query(BaseModel):
    """Base of query parameters: unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def read_query(model: type[BaseModel] | None) -> BaseModel | None:
    """The query parameters as a model; None takes none at all. Raises InvalidInput naming the parameter."""
    fields = {} if model is None else model.model_fields
    known = {info.alias or name: info for name, info in fields.items()}
    given: dict[str, Any] = {}
    for name, values in request.args.lists():
        if name not in known:
            allowed = choices(known) or "none here"
            raise InvalidInput(name, f"unknown query parameter; allowed: {allowed}")
        if _takes_list(known[name].annotation):
            given[name] = values
        elif len(values) > 1:
            raise InvalidInput(name, "given more than once; give it once")
        else:
            given[name] = values[0]
    return None if model is None else validated(model, given)


def read_json(model: type[BaseModel], most_bytes: int = 0) -> BaseModel:
    """The body as a model; raises ProblemError when it is no JSON, and InvalidInput naming the field.

    It may have as many bytes as the setting says, or ``most_bytes`` where that is more.
    """
    refuse_encoded()
    if request.mimetype != "application/json":
        raise ProblemError(UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
    most_bytes = max(most_bytes, current_service().settings.body_bytes)
    data = _parsed(b"".join(body_pieces(most_bytes, "a body")))
    if not isinstance(data, dict):
        raise InvalidInput("body", f"must be an object (given: {_shown(data)})")
    try:
        return model.parse(data) if issubclass(model, JobSpec) else validated(model, data)
    except RecursionError:
        raise ProblemError(BAD_REQUEST, "the body is nested too deeply") from None


def body_pieces(most_bytes: int, what: str) -> Iterator[bytes]:
    """The request's body, piece by piece; ``what`` names it in messages.

    Raises ProblemError for a body that is larger, cut short or malformed, and for one of which a piece takes longer
    than ``SKIPMAP_BODY_SECONDS``.
    """
    length = request.content_length
    if length is None and "wsgi.input_terminated" not in request.environ:
        # Nothing says where the body ends, so there is none.
        length = 0
    body = TimedBody(request.environ["wsgi.input"], length)
    size = 0
    while True:
        if max(size, length or 0) > most_bytes:
            raise ProblemError(TOO_LARGE, f"{what} may have {most_bytes} bytes")
        wanted = _PIECE_BYTES if length is None else min(_PIECE_BYTES, length - size)
        if wanted == 0:
            return
        piece = body.read(wanted)
        if not piece:
            return
        size += len(piece)
        yield piece


def idempotency_key() -> str | None:
    """The key by which a request that is sent again is known; raises InvalidInput for one that cannot be kept."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (0 < len(key) <= _KEY_CHARACTERS and key.isascii() and key.isprintable()):
        raise InvalidInput("Idempotency-Key", f"must be 1 to {_KEY_CHARACTERS} printable ASCII characters")
    return key


def refuse_encoded() -> None:
    """Raise ProblemError for a compressed body: what it unpacks to cannot be bounded beforehand."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ProblemError(
            UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not taken; send it without Content-Encoding"
        )


def validated(model: type[BaseModel], data: dict[str, Any]) -> BaseModel:
    """Plain data as a model; the first problem becomes one InvalidInput."""
    bad = bad_text(data)
    if bad is not None:
        raise InvalidInput(bad or "body", "holds characters that are no valid text (a lone surrogate or NUL)")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _first_problem(error) from None


class TimedBody:
    """A request's body that raises ProblemError when a piece of it takes too long, or when less comes than announced.

    ``length``: the bytes that the request announces, None where it does not.
    """

    def __init__(self, stream: IO[bytes], length: int | None) -> None:
        self._stream = stream
        self._length = length
        self._size = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece = _piece(self._stream, size)
        self._size += len(piece)
        if not piece and size and self._size < (self._length or 0):
            raise ProblemError(
                BAD_REQUEST,
                f"the body was cut short: {self._size} of {self._length} bytes came; send it again",
            )
        return piece


def _piece(stream: IO[bytes], size: int) -> bytes:
    seconds = current_service().settings.body_seconds
    stalled = ProblemError(
        REQUEST_TIMEOUT, f"{size} bytes of the body took longer than {seconds:g} s; send it again"
    )
    try:
        with within(seconds, stalled):
            piece = stream.read(size)
    except (ParseException, OSError):
        raise ProblemError(
            BAD_REQUEST, "the body was cut short or its chunks are malformed; send it again"
        ) from None
    return piece


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise ProblemError(BAD_REQUEST, "the body is not valid UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ProblemError(BAD_REQUEST, f"the body is not valid JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise ProblemError(BAD_REQUEST, "the body is nested too deeply") from None
    except ValueError as error:
        raise ProblemError(BAD_REQUEST, f"the body is not valid JSON: {error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _first_problem(error: ValidationError) -> InvalidInput:
    problem = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in problem["loc"]) or "body"
    if problem["type"] == "extra_forbidden":
        return InvalidInput(field, "unknown field; remove it or check its spelling")
    if problem["type"] == "missing":
        return InvalidInput(field, "required and not given")
    rule = problem["msg"].removeprefix("Value error, ")
    return InvalidInput(field, f"{rule} (given: {_shown(problem['input'])})")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def _takes_list(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(_takes_list(option) for option in get_args(annotation))
    return get_origin(annotation) in (list, tuple)
