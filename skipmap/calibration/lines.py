"""JSON objects of a line file, each with its line number."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any

from skipmap.calibration.records import shown
from skipmap.errors import InvalidInput

Numbered = tuple[int, dict[str, Any]]


def file_label(name: str) -> str:
    """How messages call a calibration file."""
    return f"calibration file {name}"


def line_label(name: str, number: int) -> str:
    """How messages call one line of a calibration file; lines count from 1."""
    return f"{file_label(name)}, line {number}"


def objects(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[Numbered]:
    """Yield every line's object; a byte order mark and blank lines are skipped, an empty file is an error.

    ``lines`` are the bytes of a file or an upload cut after each newline; ``first``: number of the first of them.
    """
    empty = True
    for number, line in enumerate(lines, start=first):
        where = line_label(name, number)
        text = decode(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line, where)
        if text.strip():
            empty = False
            yield number, _object(text, where)
    if empty:
        raise InvalidInput(file_label(name), "empty; give one JSON object a line")


def decode(data: bytes, where: str) -> str:
    """Text of UTF-8 bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        character = len(data[: error.start].decode("utf-8")) + 1
        raise InvalidInput(
            where, f"not valid UTF-8 at character {character}; save the file as UTF-8"
        ) from None


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        # The parser looks for more behind the end of the line, where nobody sees a place.
        end = len(text.rstrip("\r\n"))
        hint = "; give one whole object a line" if error.pos >= end else ""
        character = min(error.pos, end) + 1
        raise InvalidInput(where, f"not valid JSON: {error.msg} at character {character}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(where, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(where, f"must be a JSON object (given: {shown(value)})")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {repeated!r} is given twice")
    return record


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
