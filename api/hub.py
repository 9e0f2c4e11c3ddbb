"""The event hub: one poller a process reads new events for all streams that are open in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Literal

import structlog

from api.problems import RETRY_SECONDS, UNAVAILABLE, ProblemError
from models.database import Database
from models.errors import Unavailable
from models.events import Event, tail
from models.jobs import ENDED
from models.queries import JobMark, job_marks

KEEP_ALIVE_SECONDS = 15.0
LONGEST_SECONDS = 3600.0
"""Then a stream ends, so that its client comes back and shows a token that is still valid."""
_BATCH = 500
_QUEUED = 2 * _BATCH
_log = structlog.get_logger(__name__)

Message = Event | Literal["end"]


@dataclass(eq=False)
class _Stream:
    """A stream: what it has been given so far, and what waits to be written."""

    job_id: str
    seen: int
    waiting: Queue[Message] = field(default_factory=lambda: Queue(_QUEUED))
    closed: bool = False


class EventHub:
    """Hands the events of jobs to the streams of this process.

    The poller runs while streams are open. ``stopping`` tells whether the process is about to end: then streams end,
    too, and their clients come back elsewhere.
    """

    def __init__(self, database: Database, poll_seconds: float, most_streams: int) -> None:
        self.stopping: Callable[[], bool] = lambda: False
        self._database = database
        self._poll_seconds = poll_seconds
        self._most = most_streams
        self._open: set[_Stream] = set()
        self._lock = threading.Lock()
        self._polling = False

    @property
    def streams(self) -> int:
        """Streams that are open."""
        return len(self._open)

    def follow(self, job_id: str, after: int, seconds: float | None = None) -> Iterator[Event | None]:
        """Events of a job after a number, until it has ended; None now and then, to show that the stream lives.

        It ends after so many seconds, None: ``LONGEST_SECONDS``. Raises ProblemError at once when too many are open.
        """
        stream = _Stream(job_id, after)
        with self._lock:
            if len(self._open) >= self._most:
                raise ProblemError(
                    UNAVAILABLE,
                    "too many event streams are open; poll the job instead, or try again later",
                    {"Retry-After": str(RETRY_SECONDS)},
                )
            self._open.add(stream)
            if not self._polling:
                self._polling = True
                threading.Thread(target=self._poll, name="events", daemon=True).start()
        return self._messages(stream, time.monotonic() + (LONGEST_SECONDS if seconds is None else seconds))

    def _messages(self, stream: _Stream, ends: float) -> Iterator[Event | None]:
        try:
            # The head of the answer goes out at once.
            yield None
            while time.monotonic() < ends:
                try:
                    message = stream.waiting.get(timeout=KEEP_ALIVE_SECONDS)
                except Empty:
                    if stream.closed:
                        return
                    yield None
                    continue
                if message == "end":
                    return
                assert isinstance(message, Event)
                yield message
        finally:
            self._leave(stream)

    def _leave(self, stream: _Stream) -> None:
        stream.closed = True
        with self._lock:
            self._open.discard(stream)

    def _poll(self) -> None:
        while True:
            with self._lock:
                streams = list(self._open)
                if not streams:
                    self._polling = False
                    return
            try:
                self._turn(streams)
            except Exception:
                # Nobody else would start another poller.
                _log.exception("events cannot be read")
            time.sleep(self._poll_seconds)

    def _turn(self, streams: Sequence[_Stream]) -> None:
        if not self.stopping():
            self._serve(streams)
            return
        for stream in streams:
            self._end(stream)

    def _serve(self, streams: Sequence[_Stream]) -> None:
        by_job: dict[str, list[_Stream]] = {}
        for stream in streams:
            by_job.setdefault(stream.job_id, []).append(stream)
        try:
            marks = self._database.read(job_marks, list(by_job))
            self._hand_out(by_job, marks)
        except Unavailable as error:
            _log.warning("events wait for the database", cause=str(error))
            return
        for job_id, followers in by_job.items():
            mark = marks.get(job_id)
            for stream in followers:
                # A job that is gone has nothing more to say.
                if mark is None or (mark.state in ENDED and stream.seen >= mark.last_event):
                    self._end(stream)

    def _hand_out(self, by_job: dict[str, list[_Stream]], marks: dict[str, JobMark]) -> None:
        while True:
            seen = {
                job_id: min(stream.seen for stream in followers)
                for job_id, followers in by_job.items()
                if job_id in marks
            }
            behind = {job_id: n for job_id, n in seen.items() if n < marks[job_id].last_event}
            if not behind:
                return
            events = self._database.read(tail, behind, _BATCH)
            for event in events:
                for stream in by_job[event.job_id]:
                    self._give(stream, event)
            if len(events) < _BATCH:
                return

    def _give(self, stream: _Stream, event: Event) -> None:
        if event.seq <= stream.seen:
            return
        stream.seen = event.seq
        try:
            stream.waiting.put_nowait(event)
        except Full:
            # Its reader is too slow: it ends here, and comes back with the number of the last event that it got.
            self._cut(stream)

    def _end(self, stream: _Stream) -> None:
        try:
            stream.waiting.put_nowait("end")
        except Full:
            self._cut(stream)
        with self._lock:
            self._open.discard(stream)

    def _cut(self, stream: _Stream) -> None:
        stream.closed = True
        with self._lock:
            self._open.discard(stream)
