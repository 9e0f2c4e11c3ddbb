"""JSON from elsewhere, read strictly: what two readers could take differently is refused."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from skipmap.canonical import bad_text
from skipmap.errors import InvalidInput

MAX_DEPTH = 32
"""Deepest nesting of lists and objects; a map needs 7."""

_SHOWN_CHARACTERS = 80
_FIRST_SCALAR = "str"
_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)
"""Text that never ends matches too, and nothing is tried twice: any input is looked at once."""

_M = TypeVar("_M", bound=BaseModel)


class Section(BaseModel):
    """Base of the parts of signed documents: immutable, no silent conversion, later minor versions may add fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


def read_json(data: bytes, field: str, max_bytes: int) -> Any:
    """Parse UTF-8 JSON of at most ``max_bytes``.

    Raises InvalidInput for too many bytes, nesting beyond ``MAX_DEPTH``, a key given twice, numbers that are not
    finite, and text that cannot be stored.
    """
    if len(data) > max_bytes:
        raise InvalidInput(field, f"has {len(data)} bytes; at most {max_bytes} are read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(field, f"is no UTF-8 text (byte {error.start}); give JSON in UTF-8") from None
    _check_depth(text, field)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise InvalidInput(field, f"gives the key {_shown(key)} twice in one object; give it once")
            found[key] = value
        return found

    def finite(number: str) -> float:
        value = float(number)
        if not math.isfinite(value):
            _not_finite(number)
        return value

    def _not_finite(number: str) -> NoReturn:
        raise InvalidInput(field, f"holds the number {number[:_SHOWN_CHARACTERS]}; numbers must be finite")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=_not_finite, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(field, f"is no readable JSON document: {error}") from None
    bad = bad_text(value)
    if bad is not None:
        raise InvalidInput(field, f"holds characters at {bad or 'its top'} that are no valid text")
    return value


def read_section(model: type[_M], data: bytes, field: str, max_bytes: int) -> _M:
    """Parse and validate JSON; the first problem becomes one InvalidInput that names field, rule and value."""
    read_json(data, field, max_bytes)
    try:
        # Only in JSON mode does strict take lists for tuples.
        return model.model_validate_json(data)
    except ValidationError as error:
        raise _first_problem(error, field) from None


def _check_depth(text: str, field: str) -> None:
    depth = 0
    for found in _STRINGS_AND_BRACKETS.finditer(text):
        first = found[0][0]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise InvalidInput(field, f"is nested deeper than {MAX_DEPTH} lists or objects")


def _first_problem(error: ValidationError, field: str) -> InvalidInput:
    problems = error.errors(include_url=False)
    problem = problems[0]
    path = problem["loc"]
    if len(problems) > 1 and path[-1] == _FIRST_SCALAR and problems[1]["loc"][:-1] == path[:-1]:
        # One problem for each type that the value could have had.
        return InvalidInput(
            ".".join(map(str, (field, *path[:-1]))),
            f"must be text, a finite number, true, false or null (given: {_shown(problem['input'])})",
        )
    place = ".".join(map(str, (field, *path)))
    if problem["type"] == "missing":
        return InvalidInput(place, "required and not given")
    rule = problem["msg"].removeprefix("Value error, ")
    if isinstance(problem["input"], dict):
        return InvalidInput(place, rule)
    return InvalidInput(place, f"{rule} (given: {_shown(problem['input'])})")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
