"""The audit: who changed what, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from flask import Response, request

from api.csv import csv_file, csv_text
from api.paging import bad_cursor, make_cursor, read_cursor
from api.service import current_service
from models.audit import AuditLine, list_audit
from models.base import is_id
from models.database import Database
from web.rendering import render
from web.routes import Pages

pages = Pages(section="admin")
_LINES_A_PAGE = 50
_CSV_LINES = 500
_FILTERS = ("actor", "action", "subject")
_COLUMNS = ("at", "actor", "actor_id", "action", "subject", "detail", "request_id")


@pages.get("/admin/audit", access="admin")
def show_audit() -> Response:
    """What was changed, newest first."""
    before = read_cursor(request.args.get("cursor") or None, "audit")
    if before is not None and not is_id(before):
        raise bad_cursor()
    filters = _filters()
    found = current_service().database.read(list_audit, limit=_LINES_A_PAGE + 1, before=before, **filters)
    page = found[:_LINES_A_PAGE]
    return render(
        "admin/audit.html",
        lines=[(line, _detail(line)) for line in page],
        filters={name: filters.get(name, "") for name in _FILTERS},
        is_filtered=bool(filters),
        next_cursor=make_cursor("audit", page[-1].entry.id) if len(found) > _LINES_A_PAGE else None,
        is_first=before is None,
    )


@pages.get("/admin/audit.csv", access="admin")
def download_audit() -> Response:
    """All that fits the filters, as a table."""
    database, filters = current_service().database, _filters()
    # The first lines are read before the answer begins, so that what can go wrong still gets a status of its own.
    first = database.read(list_audit, limit=_CSV_LINES, **filters)
    return csv_file(_csv_lines(database, filters, first), "audit.csv")


def _filters() -> dict[str, str]:
    given = {name: request.args.get(name, "").strip() for name in _FILTERS}
    return {name: value for name, value in given.items() if value}


def _detail(line: AuditLine) -> list[tuple[str, str]]:
    """The details as names and texts."""
    return [(name.replace("_", " "), _words(value)) for name, value in line.entry.detail.items()]


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _csv_lines(database: Database, filters: dict[str, str], lines: Sequence[AuditLine]) -> Iterator[str]:
    yield csv_text([_COLUMNS])
    while lines:
        yield csv_text([_values(line) for line in lines])
        if len(lines) < _CSV_LINES:
            return
        lines = database.read(list_audit, limit=_CSV_LINES, before=lines[-1].entry.id, **filters)


def _values(line: AuditLine) -> tuple[str, ...]:
    entry = line.entry
    detail = json.dumps(entry.detail, ensure_ascii=False) if entry.detail else ""
    return (
        entry.created_at.isoformat(),
        line.actor_name or "",
        entry.actor,
        entry.action,
        entry.subject,
        detail,
        entry.request_id or "",
    )
