"""Events of a job as the service sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from skipmap.client.connection import STREAM_SILENCE_SECONDS, Call, Connection
from skipmap.errors import ModelFailure


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job. ``id``: its number, from 1 on; ``kind``: job, level, chunk or progress."""

    id: int
    kind: str
    data: dict[str, Any]


def stream_events(
    connection: Connection, path: str, last_event_id: int | None = None, *, retry: bool = True
) -> Iterator[JobEvent]:
    """Events after the last one seen, over one connection; ends when the server ends it.

    Raises ModelFailure when the connection breaks or something else comes.
    """
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = str(last_event_id)
    call = Call("GET", path, headers=headers)
    with connection.stream(call, silence_seconds=STREAM_SILENCE_SECONDS, retry=retry) as response:
        if response.status_code == 204:
            # The job has ended, and its last event was seen before.
            return
        for event in httpx2.EventSource(response):
            if event.data:
                yield _read(event)


def _read(event: httpx2.ServerSentEvent) -> JobEvent:
    try:
        data = json.loads(event.data)
        return JobEvent(int(event.id), event.event, data if isinstance(data, dict) else {"value": data})
    except (ValueError, RecursionError) as error:
        raise ModelFailure(f"the server sent an event that cannot be read ({error})") from None
