"""The audit: who changed what, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from flask import Response, request
from sqlalchemy.orm import Session

from api.csv import csv_file, csv_text
from api.paging import make_cursor
from api.service import current_service
from models.audit import AuditLine, list_audit
from models.base import is_id
from models.database import Database
from models.names import names_of
from web.asked import place_asked
from web.rendering import render
from web.routes import Pages
from web.views.audit import AuditRow, audit_rows

pages = Pages(section="admin")
_LINES_A_PAGE = 50
_CSV_LINES = 500
_FILTERS = ("actor", "action", "subject")
_COLUMNS = ("at", "actor", "actor_id", "action", "subject_name", "subject", "detail", "request_id")


@pages.get("/admin/audit", access="admin")
def show_audit() -> Response:
    """What was changed, newest first."""
    before = place_asked("audit")
    filters = _filters()
    more = {"limit": _LINES_A_PAGE + 1, "before": before, **filters}

    def read(session: Session) -> tuple[list[AuditRow], bool]:
        lines = list_audit(session, **more)
        return audit_rows(session, lines[:_LINES_A_PAGE]), len(lines) > _LINES_A_PAGE

    rows, has_more = current_service().database.read(read)
    return render(
        "admin/audit.html",
        rows=rows,
        filters={name: filters.get(name, "") for name in _FILTERS},
        is_filtered=bool(filters),
        next_cursor=make_cursor("audit", rows[-1].entry.id) if has_more else None,
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


def _csv_lines(database: Database, filters: dict[str, str], lines: Sequence[AuditLine]) -> Iterator[str]:
    yield csv_text([_COLUMNS])
    while lines:
        names = database.read(names_of, {line.entry.subject for line in lines if is_id(line.entry.subject)})
        yield csv_text([_values(line, names) for line in lines])
        if len(lines) < _CSV_LINES:
            return
        lines = database.read(list_audit, limit=_CSV_LINES, before=lines[-1].entry.id, **filters)


def _values(line: AuditLine, names: Mapping[str, str]) -> tuple[str, ...]:
    entry = line.entry
    detail = json.dumps(entry.detail, ensure_ascii=False) if entry.detail else ""
    return (
        entry.created_at.isoformat(),
        line.actor_name or "",
        entry.actor,
        entry.action,
        names.get(entry.subject, ""),
        entry.subject,
        detail,
        entry.request_id or "",
    )
