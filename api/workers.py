"""Workers: who there is, and what an operator may tell them."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, g
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.routes import Answer, Routes
from api.service import current_service
from api.views import worker_view
from models.audit import record
from models.workers import drain, end_quarantine, find_worker, list_workers
from skipmap.client.documents import Page, WorkerView

routes = Routes("workers")
_LIST = "workers"
_WORKER = {200: Answer("The worker", WorkerView)}


@routes.add(
    "GET",
    "/workers",
    access="jobs:read",
    query=PageQuery,
    answers={200: Answer("A page of workers, by name", Page[WorkerView], headers=("Link",))},
)
def get_workers(query: PageQuery) -> Response:
    """List workers, live or not; those long gone are forgotten."""
    after = read_cursor(query.cursor, _LIST)
    if after is not None and (not isinstance(after, str) or "\0" in after):
        raise bad_cursor()
    service = current_service()
    found = service.database.read(
        list_workers, service.stored.lease_seconds, limit=query.limit + 1, after=after
    )
    page = [worker_view(state) for state in found[: query.limit]]
    return page_of(page, make_cursor(_LIST, page[-1].owner) if len(found) > query.limit else None)


@routes.add("POST", "/workers/<owner:owner>/drain", access="admin", answers=_WORKER)
def drain_worker(owner: str) -> Response:
    """Let a worker stop at its next forward; it claims nothing more until its process is started anew."""
    return _changed(owner, "worker.drain", drain)


@routes.add("POST", "/workers/<owner:owner>/end-quarantine", access="admin", answers=_WORKER)
def end_worker_quarantine(owner: str) -> Response:
    """Let a worker claim again that was set aside, as after a check that its device works."""
    return _changed(owner, "worker.end-quarantine", end_quarantine)


def _changed(owner: str, action: str, change: Callable[[Session, str], object]) -> Response:
    service, actor, request_id = current_service(), current_principal().user_id, g.request_id

    def work(session: Session) -> WorkerView:
        change(session, owner)
        state = find_worker(session, owner, service.stored.lease_seconds)
        record(session, actor, action, owner, request_id)
        return worker_view(state)

    return json_response(service.database.transaction(work))
