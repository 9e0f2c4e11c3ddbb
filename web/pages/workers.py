"""Page of workers: who works, who could, and who has fallen silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from flask import Response
from sqlalchemy.orm import Session

from api.service import current_service
from api.views import worker_view
from models.workers import list_workers
from skipmap.client.documents import WorkerView
from web.routes import Pages
from web.views.node_live import render_live

pages = Pages()
MOST_WORKERS = 500

State = Literal["live", "draining", "set aside", "silent"]
_ORDER: tuple[State, ...] = ("silent", "set aside", "draining", "live")


@dataclass(frozen=True)
class WorkerRow:
    """A worker, and how it is."""

    view: WorkerView
    state: State


@pages.get("/workers", access="jobs:read")
def show_workers() -> Response:
    """All workers: those at work, and those that need somebody's eye."""
    service = current_service()

    def read(session: Session) -> list[WorkerView]:
        found = list_workers(session, service.stored.lease_seconds, limit=MOST_WORKERS)
        return [worker_view(state) for state in found]

    found = [_row(view, service.stored.lease_seconds) for view in service.database.read(read)]
    rows = sorted(found, key=lambda row: _ORDER.index(row.state))
    return render_live(
        "workers/workers.html",
        rows,
        rows=rows,
        most=MOST_WORKERS,
        totals={state: sum(row.state == state for row in rows) for state in reversed(_ORDER)},
        busy=sum(row.view.job is not None for row in rows),
    )


def _row(view: WorkerView, within_seconds: float) -> WorkerRow:
    if view.live:
        return WorkerRow(view, "live")
    now = datetime.now(UTC)
    if now - view.seen_at > timedelta(seconds=within_seconds):
        return WorkerRow(view, "silent")
    is_aside = view.quarantined_until is not None and view.quarantined_until > now
    return WorkerRow(view, "set aside" if is_aside else "draining")
