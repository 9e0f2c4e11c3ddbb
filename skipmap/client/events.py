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


class EventStream:
    """Events after the last one seen, over one connection; ends when the server or the network ends it.

    ``complete``: the server has said that the job has ended and nothing comes after the last event seen. Iterating
    raises ModelFailure when the connection breaks or something else comes.
    """

    def __init__(
        self, connection: Connection, path: str, last_event_id: int | None = None, *, retry: bool = True
    ) -> None:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        self._connection, self._retry = connection, retry
        self._call = Call("GET", path, headers=headers)
        self.complete = False

    def __iter__(self) -> Iterator[JobEvent]:
        with self._connection.stream(
            self._call, silence_seconds=STREAM_SILENCE_SECONDS, retry=self._retry
        ) as response:
            if response.status_code == 204:
                self.complete = True
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
