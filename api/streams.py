"""Server-sent events of a job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from flask import Response, request
from pydantic import Field

from api.requests import Query
from api.routes import Answer, Routes
from api.service import current_service
from models.events import Event
from models.jobs import ENDED
from models.queries import job_marks
from skipmap.errors import InvalidInput, NotFound

routes = Routes("jobs")
_LARGEST = 2**63 - 1


class EventsQuery(Query):
    """From where."""

    after: int = Field(
        default=0, ge=0, le=_LARGEST, description="Number of the last event seen; Last-Event-ID wins over it."
    )


@routes.add(
    "GET",
    "/jobs/<id:job_id>/events",
    access="jobs:read",
    query=EventsQuery,
    request_headers={"Last-Event-ID": "Number of the last event seen, as EventSource sends it by itself."},
    answers={
        200: Answer("Events as they come; the stream ends when the job has", media=("text/event-stream",)),
        204: Answer("The job has ended and everything was seen; EventSource then stops asking"),
    },
)
def get_events(job_id: str, query: EventsQuery) -> Response:
    """Follow a job by server-sent events: id is the event's number, event its kind, data a JSON object."""
    return event_stream(job_id, query.after)


def event_stream(job_id: str, after: int, seconds: float | None = None) -> Response:
    """The events of a job after a number, or after the one that the request's Last-Event-ID names; raises NotFound.

    ``seconds``: how long the stream may go on before its client must come back; None: as long as the API's.
    """
    service = current_service()
    after = _last_event_id(after)
    mark = service.database.read(job_marks, [job_id]).get(job_id)
    if mark is None:
        raise NotFound(f"no job {job_id!r}")
    if mark.state in ENDED and after >= mark.last_event:
        return Response(status=204)
    response = Response(
        _lines(service.hub.follow(job_id, after, seconds)), content_type="text/event-stream; charset=utf-8"
    )
    response.headers["Cache-Control"] = "no-cache"
    # Proxies must pass every event on at once.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _lines(messages: Iterable[Event | None]) -> Iterator[str]:
    for event in messages:
        if event is None:
            yield ": alive\n\n"
        else:
            data = {"created_at": event.created_at.isoformat(), **event.payload}
            yield f"id: {event.seq}\nevent: {event.kind}\ndata: {json.dumps(data)}\n\n"


def _last_event_id(otherwise: int) -> int:
    text = request.headers.get("Last-Event-ID", "").strip()
    if not text:
        return otherwise
    if not text.isascii() or not text.isdecimal() or int(text[:20]) > _LARGEST or len(text) > 19:
        raise InvalidInput("Last-Event-ID", f"{text[:40]!r} is no number of an event")
    return int(text)
