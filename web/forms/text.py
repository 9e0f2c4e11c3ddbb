"""How values are written in the fields of a form, so that reading gives back the very same value.

Most are written as they are. A text that a field would not keep, since it begins or ends with a space, holds a line
break or looks like something else, stands in double quotes, as in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from skipmap.canonical import bad_text
from skipmap.spec import ParamValue

MOST_LINES = 200
"""Of a field: more than any can use, and each is looked at by itself."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 64
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WORDS: dict[str, ParamValue] = {"true": True, "false": False, "null": None}
_decoder = json.JSONDecoder()


def write_text(value: str | None) -> str:
    """A text for a field; None leaves it empty."""
    if value is None:
        return ""
    is_plain = value != "" and value == value.strip() and value[0] != '"' and not _CONTROL.search(value)
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def read_text(typed: str) -> str | None:
    """Inverse of ``write_text``; quotes that enclose no JSON text are part of what was typed."""
    typed = typed.strip()
    if not typed:
        return None
    if typed[0] == '"':
        try:
            value, end = _decoder.raw_decode(typed)
        except ValueError:
            return typed
        if end == len(typed) and bad_text(value) is None:
            return str(value)
    return typed


def write_number(value: float | None) -> str:
    """A number for a field of numbers; None leaves it empty."""
    if value is None:
        return ""
    text = repr(value)
    # A field of fractions reads a whole number as one of them, but minus zero is none.
    return text if text == "-0.0" else text.removesuffix(".0")


def read_number(typed: str) -> int | float | str | None:
    """A number, None for an empty field, and what is no number as it was typed."""
    typed = typed.strip()
    if not _is_number(typed):
        return typed or None
    return int(typed) if _WHOLE.fullmatch(typed) else float(typed)


def write_scalar(value: ParamValue) -> str:
    """A parameter of any plain type."""
    if isinstance(value, str):
        written = write_text(value)
        return written if read_scalar(written) == value else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def read_scalar(typed: str) -> ParamValue:
    """Inverse of ``write_scalar``: a number, ``true``, ``false``, ``null``, else a text."""
    typed = typed.strip()
    if typed in _WORDS:
        return _WORDS[typed]
    return read_number(typed) if _is_number(typed) else read_text(typed) or ""


def write_lines(values: Iterable[str]) -> str:
    """Texts, one a line."""
    return "\n".join(write_text(value) for value in values)


def read_lines(typed: str) -> tuple[list[str], list[str]]:
    """Inverse of ``write_lines``, and what is wrong with it; empty lines count for nothing."""
    lines = _lines(typed)
    values = [value for value in map(read_text, lines[:MOST_LINES]) if value is not None]
    return values, _too_many(lines)


def write_pairs(values: Mapping[str, ParamValue], *, texts: bool) -> str:
    """Names and values, ``name=value`` on each line; ``texts``: all values are texts, so numbers need no quotes."""
    return "\n".join(
        f"{_write_name(name)}={(write_text(str(value)) if texts else write_scalar(value))}"
        for name, value in values.items()
    )


def read_pairs(typed: str, *, texts: bool) -> tuple[dict[str, ParamValue], list[str]]:
    """Inverse of ``write_pairs``, and what is wrong with lines that are no pair, or are too many."""
    found: dict[str, ParamValue] = {}
    lines = _lines(typed)
    problems = _too_many(lines)
    for line in lines[:MOST_LINES]:
        name, equals, rest = _read_name(line)
        if not equals:
            problems.append(f'"{shortened(line)}" is not of the form name=value')
        elif name in found:
            problems.append(f'"{shortened(name)}" is given twice')
        else:
            found[name] = (read_text(rest) or "") if texts else read_scalar(rest)
    return found, problems


def shortened(text: str, most: int = 200) -> str:
    """A text as messages show it: cut where it is long."""
    return text if len(text) <= most else text[:most] + "…"


def _too_many(lines: list[str]) -> list[str]:
    most = f"there are {len(lines):,} lines, and {MOST_LINES} at most are read; leave out what is not needed"
    return [most] if len(lines) > MOST_LINES else []


def _is_number(typed: str) -> bool:
    return len(typed) <= _LONGEST_NUMBER and _NUMBER.fullmatch(typed) is not None


def _lines(typed: str) -> list[str]:
    lines = typed.replace("\r\n", "\n").split("\n")
    return [line for line in lines if line.strip()]


def _write_name(name: str) -> str:
    written = write_text(name)
    return written if "=" not in written or written[0] == '"' else json.dumps(name, ensure_ascii=False)


def _read_name(line: str) -> tuple[str, str, str]:
    """Name, equals sign and the rest of a line; no sign where there is no pair. A name in quotes may be empty."""
    line = line.strip()
    if line[0] == '"':
        try:
            name, end = _decoder.raw_decode(line)
        except ValueError:
            pass
        else:
            rest = line[end:].lstrip()
            if rest.startswith("="):
                return str(name), "=", rest[1:]
    name, equals, rest = line.partition("=")
    return name.strip(), equals if name.strip() else "", rest
