"""Labels in an address of the API: ``name=value``, as everywhere else.

``name:value`` is read as well: the first of the two signs ends the name. A name that holds one of them, or begins with
a double quote, stands in double quotes, as in JSON.
"""

from __future__ import annotations

import json
import re

from skipmap.canonical import bad_text
from skipmap.errors import InvalidInput

_SIGN = re.compile(r"[=:]")


def write_label(name: str, value: str) -> str:
    """A label as the API's parameter ``label`` takes it."""
    is_plain = name != "" and name[0] != '"' and not _SIGN.search(name)
    return f"{name if is_plain else json.dumps(name, ensure_ascii=False)}={value}"


def read_label(text: str) -> tuple[str, str]:
    """Name and value, the inverse of ``write_label``; raises InvalidInput for what is no label."""
    name, rest = _quoted(text) if text.startswith('"') else (None, "")
    if name is None:
        sign = _SIGN.search(text)
        name, rest = (text[: sign.start()], text[sign.start() :]) if sign else ("", "")
        if not name:
            raise InvalidInput("label", f"{text!r} given; write name=value")
    return name, rest[1:]


def _quoted(text: str) -> tuple[str | None, str]:
    """A name in quotes with what follows it, a sign first; None where there is no such thing."""
    try:
        name, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None, ""
    is_name = text[end : end + 1] == "=" and bad_text(name) is None
    return (str(name), text[end:]) if is_name else (None, "")
