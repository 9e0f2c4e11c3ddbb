"""The channel hub: one poller a process looks for moves of all channels that somebody waits for in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from api.envelopes import Envelopes, Place, Snapshot
from models.errors import Unavailable

_LOOKS = 8
_LEAST_TRUST_SECONDS = 2.0
_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class _Topic:
    """A channel that somebody waits for. All of them wait for one event, which the next news replaces."""

    waiting: int = 0
    news: threading.Event = field(default_factory=threading.Event)
    newest: Snapshot | None = None
    looked_at: float = float("-inf")
    """When the poller has last seen that what the channel hands out is valid."""

    def wake(self) -> None:
        news, self.news = self.news, threading.Event()
        news.set()


class ChannelHub:
    """Lets requests wait for the next revision of a channel; one that waits costs no connection and no query.

    The poller runs while requests wait. ``stopping`` tells whether the process is about to end: then nobody waits.
    """

    def __init__(self, envelopes: Envelopes, poll_seconds: float, most_waiting: int) -> None:
        self.stopping: Callable[[], bool] = lambda: False
        self._envelopes = envelopes
        self._poll_seconds = poll_seconds
        self._trust_seconds = max(_LEAST_TRUST_SECONDS, _LOOKS * poll_seconds)
        self._most = most_waiting
        self._topics: dict[Place, _Topic] = {}
        self._lock = threading.Lock()
        self._polling = False
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._waiting

    @property
    def is_full(self) -> bool:
        """Whether as many wait as may."""
        return self._waiting >= self._most

    def wait(self, seen: Snapshot, seconds: float) -> Snapshot | None:
        """What the channel hands out after ``seen``; None when nothing comes in time, or the process ends.

        Returns None at once when too many wait: to be held back is a wish. Where the poller could not look of late, the
        channel is asked again at the end, which raises as a fetch does: nobody is told that nothing is new by who does
        not know.
        """
        began = time.monotonic()
        until = began + seconds
        place = (seen.mark.map_name, seen.mark.channel)
        with self._topic(place) as topic:
            while topic is not None and not self.stopping():
                # Taken before the look, so that news in between is not slept through.
                news = topic.news
                newest = topic.newest
                # What the poller has seen may be older than what the request has read itself. A look that began later
                # counts whatever it shows: a database that was restored goes back.
                is_later = newest is not None and (
                    newest.mark.revision > seen.mark.revision or topic.looked_at > began
                )
                if newest is not None and is_later and newest.etag != seen.etag:
                    # All of them wake in one turn; what else is ready gets its turn in between.
                    time.sleep(0)
                    return newest
                if not news.wait(max(0.0, until - time.monotonic())):
                    looked_before = time.monotonic() - topic.looked_at
                    return self._envelopes.current(*place) if looked_before > self._trust_seconds else None
        return None

    @contextmanager
    def _topic(self, place: Place) -> Iterator[_Topic | None]:
        with self._lock:
            is_full = self.is_full
            if not is_full:
                self._waiting += 1
                topic = self._topics.setdefault(place, _Topic())
                topic.waiting += 1
                if not self._polling:
                    self._polling = True
                    threading.Thread(target=self._poll, name="channels", daemon=True).start()
        if is_full:
            yield None
            return
        try:
            yield topic
        finally:
            with self._lock:
                self._waiting -= 1
                topic.waiting -= 1
                if not topic.waiting:
                    del self._topics[place]

    def _poll(self) -> None:
        while True:
            with self._lock:
                topics = dict(self._topics)
                if not topics:
                    self._polling = False
                    return
            try:
                self._turn(topics)
            except Unavailable as error:
                _log.warning("channels wait for the database", cause=str(error))
            except Exception:
                # Nobody else would start another poller.
                _log.exception("channels cannot be read")
            time.sleep(self._poll_seconds)

    def _turn(self, topics: dict[Place, _Topic]) -> None:
        if self.stopping():
            for topic in topics.values():
                topic.wake()
            return
        asked_at = time.monotonic()
        for mark in self._envelopes.marks(list(topics)):
            topic = topics[mark.map_name, mark.channel]
            newest = topic.newest
            if newest is None or (mark.revision, mark.digest) != (newest.mark.revision, newest.mark.digest):
                topic.newest = self._envelopes.snapshot(mark)
            topic.looked_at = asked_at
            if topic.newest is not newest:
                topic.wake()
