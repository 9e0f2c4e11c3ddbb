"""The requests of OpenAI's API, as far as they can be answered here; the rest is refused by name.

Fields that change nothing about an answer are ignored; fields that ask for something that is not there are refused
unless they hold the value that asks for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from skipmap.errors import InvalidInput
from skipmap.maps.strict import read_json
from skipmap.spec import COLDEST

MAX_STOPS = 4
MAX_STOP_CHARACTERS = 1000
MAX_CHOICES = 16
_MAX_DOMAIN_CHARACTERS = 200
_SHOWN_CHARACTERS = 80

_IGNORED = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
    }
)
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0, 0.0),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "prediction": (),
    "presence_penalty": (0, 0.0),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "web_search_options": (),
}
"""Fields that this node cannot act on, with the values that ask for nothing."""


def _stops(value: Any) -> Any:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise ValueError(f"must be a string or a list of up to {MAX_STOPS}")
    if len(stops) > MAX_STOPS or not all(0 < len(stop) <= MAX_STOP_CHARACTERS for stop in stops):
        raise ValueError(f"up to {MAX_STOPS} strings of 1 to {MAX_STOP_CHARACTERS} characters are allowed")
    return tuple(stops)


def _temperature(value: Any) -> Any:
    if type(value) in (int, float) and 0 < value < COLDEST:
        raise ValueError(f"must be 0 (greedy) or from {COLDEST} to 2")
    return value


def _prompts(value: Any) -> Any:
    if isinstance(value, str) or _are_tokens(value):
        return (value,)
    is_list = isinstance(value, list) and value
    if is_list and (all(isinstance(prompt, str) for prompt in value) or all(map(_are_tokens, value))):
        return tuple(value)
    raise ValueError("must be a string, a list of strings, a list of token ids, or a list of such lists")


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


def _content(value: Any) -> Any:
    """Text of a message: a string, or parts of type text, one a line."""
    if not isinstance(value, list):
        return value
    for place, part in enumerate(value):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            raise ValueError(f"part {place} is of type {_shown(kind)}; only text parts can be read")
    return "\n".join(part["text"] for part in value)


def _no_calls(value: Any) -> Any:
    if value != []:
        raise ValueError("calls of tools cannot be read here; leave them out")
    return ()


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class StreamOptions(_Shape):
    """What a stream carries besides text."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Message(BaseModel):
    """A message of a chat. Notes that clients keep with it are ignored; tool calls are refused."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_content)]
    tool_calls: Annotated[tuple[()], BeforeValidator(_no_calls)] = ()


class AnswerRequest(_Shape):
    """What both kinds of request have in common. ``top_k`` and ``domain`` are additions to OpenAI's fields."""

    model: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    temperature: Annotated[float, BeforeValidator(_temperature)] = Field(0.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Annotated[tuple[str, ...], BeforeValidator(_stops)] = ()
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    domain: str | None = Field(None, min_length=1, max_length=_MAX_DOMAIN_CHARACTERS)


class CompletionRequest(AnswerRequest):
    """POST /v1/completions."""

    prompt: Annotated[tuple[Any, ...], BeforeValidator(_prompts)]


class ChatRequest(AnswerRequest):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)


_R = TypeVar("_R", bound=AnswerRequest)


def read_request(shape: type[_R], data: bytes, max_bytes: int) -> _R:
    """Read a request's body; raises InvalidInput naming the field, what was given and what is allowed."""
    body = read_json(data, "body", max_bytes)
    if not isinstance(body, dict):
        raise InvalidInput("body", "is no JSON object")
    # OpenAI's clients send null for what was not given.
    given = {name: value for name, value in body.items() if value is not None and name not in _IGNORED}
    for name in [*given]:
        if name in _NEUTRAL and name not in shape.model_fields:
            _check_neutral(name, given.pop(name))
    if isinstance(given.get("messages"), list):
        given["messages"] = [_without_nulls(message) for message in given["messages"]]
    if isinstance(given.get("stream_options"), dict):
        given["stream_options"] = _without_nulls(given["stream_options"])
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise _problem(error, shape) from None


def _check_neutral(name: str, value: Any) -> None:
    # Not by ==: false is no 0 here.
    allowed = _NEUTRAL[name]
    if not any(type(value) is type(neutral) and value == neutral for neutral in allowed):
        way_out = f"leave it out, or give {_shown(allowed[0])}" if allowed else "leave it out"
        raise InvalidInput(name, f"is not supported here (given: {_shown(value)}); {way_out}")


def _without_nulls(value: Any) -> Any:
    return {key: v for key, v in value.items() if v is not None} if isinstance(value, dict) else value


def _problem(error: ValidationError, shape: type[BaseModel]) -> InvalidInput:
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "missing":
        return InvalidInput(place, "required and not given")
    if problem["type"] == "extra_forbidden":
        return InvalidInput(place, "is not known; leave it out")
    rule = problem["msg"].removeprefix("Value error, ")
    return InvalidInput(place, f"{rule} (given: {_shown(problem['input'])})")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
