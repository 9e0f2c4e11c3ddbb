"""Health: whether the process lives, and what it can reach."""

from __future__ import annotations

from collections import Counter

from flask import Response
from sqlalchemy.orm import Session

from api.paging import json_response
from api.problems import RETRY_SECONDS
from api.routes import Answer, Routes
from api.service import Service, current_service
from models.errors import Unavailable
from models.reconcilers import newest_age
from models.workers import live_workers
from skipmap.client.documents import Alive, Ready

routes = Routes("health", prefix="")
_RECONCILER_SECONDS = 30.0


@routes.add("GET", "/healthz", access="public", answers={200: Answer("The process lives", Alive)})
def get_health() -> Response:
    """Whether the process answers; looks at nothing else."""
    return json_response(Alive(status="alive"))


@routes.add(
    "GET",
    "/readyz",
    access="public",
    answers={
        200: Answer("Requests can be served; `degraded` when work may not get on", Ready),
        503: Answer("The database does not answer", Ready, headers=("Retry-After",)),
    },
)
def get_readiness() -> Response:
    """What the service can reach."""
    found = readiness(current_service())
    if found.status == "unavailable":
        return json_response(found, 503, {"Retry-After": str(RETRY_SECONDS)})
    return json_response(found)


def readiness(service: Service) -> Ready:
    """Look at database, broker, reconcilers and workers; only the database is needed to serve."""

    def read(session: Session) -> tuple[float | None, dict[str, int]]:
        workers = live_workers(session, service.stored.lease_seconds)
        return newest_age(session), dict(Counter(worker.device_class for worker in workers))

    try:
        age, workers = service.database.read(read)
    except Unavailable:
        return Ready(status="unavailable", database=False, broker=None, reconciler=False, workers={})
    broker = service.broker.answers()
    reconciler = age is not None and age < _RECONCILER_SECONDS
    healthy = bool(broker) and reconciler and bool(workers)
    return Ready(
        status="ready" if healthy else "degraded",
        database=True,
        broker=broker,
        reconciler=reconciler,
        workers=workers,
    )
