"""Tables as CSV that a spreadsheet can open without running any of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from flask import Response

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Sequence[Sequence[Any]]) -> str:
    """Lines of a table."""
    text = io.StringIO()
    csv.writer(text).writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def csv_file(lines: Iterator[str], name: str) -> Response:
    """An answer that a browser saves under the name, sent while it is made."""
    response = Response(lines, content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    # A spreadsheet would run text that begins so.
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
