"""Follow a job to its end: events say when to look, and looking alone is enough where there are none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skipmap.client.client import Client
from skipmap.client.documents import ENDED, JobView
from skipmap.errors import ModelFailure, SkipmapError

PATIENCE_SECONDS = 900.0
"""How long a service may be away before watching is given up."""

_POLL_SECONDS, _LONGEST_POLL_SECONDS = 2.0, 15.0
_BURST_SECONDS = 0.5
_STREAM_AGAIN_SECONDS = 30.0


@dataclass(frozen=True)
class Away:
    """The service does not answer, and why; watching goes on."""

    problem: str


def watch(
    client: Client,
    job_id: str,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[JobView | Away]:
    """The job as it is now and after every change, the last time when it has ended.

    Outlives restarts of the service: an absence is told once. Raises ModelFailure when it lasts longer than
    ``patience_seconds``, and what the service says when the first look fails.
    """
    first = client.poll(job_id)
    assert first.job is not None
    yield first.job
    if first.job.state not in ENDED:
        yield from _Watch(client, job_id, first.etag, patience_seconds, pause).changes()


class _Watch:
    """What is known of a job between two looks."""

    def __init__(
        self,
        client: Client,
        job_id: str,
        etag: str | None,
        patience_seconds: float,
        pause: Callable[[float], None],
    ) -> None:
        self._client, self._job_id, self._etag = client, job_id, etag
        self._patience_seconds, self._pause = patience_seconds, pause
        self._last_event: int | None = None
        self._stream_again_seconds = _STREAM_AGAIN_SECONDS
        self._looked_at = self._stream_due_at = 0.0
        self._away_since: float | None = None
        self._wait = _POLL_SECONDS
        self._ended = False

    def changes(self) -> Iterator[JobView | Away]:
        """Looks that show something new, the end last."""
        while not self._ended:
            if self._away_since is None and time.monotonic() >= self._stream_due_at:
                yield from self._follow()
            if not self._ended:
                yield from self._look()
            if not self._ended:
                self._pause(self._wait)

    def _follow(self) -> Iterator[JobView | Away]:
        """Look when an event comes, as long as one connection lasts."""
        opened = False
        try:
            for event in self._client.stream_events(self._job_id, self._last_event):
                opened, self._last_event = True, event.id
                # Events come in bursts; those of work in between are soon followed by others.
                is_burst = time.monotonic() < self._looked_at + _BURST_SECONDS
                if event.kind in ("job", "level") or not is_burst:
                    yield from self._look()
                if self._ended:
                    return
        except SkipmapError:
            # A look tells what is wrong with the service; a stream alone may be something that a proxy denies.
            pass
        if opened:
            self._stream_again_seconds = _STREAM_AGAIN_SECONDS
        else:
            # Something between here and the service may hold streams back, and every try is time without news.
            self._stream_due_at = time.monotonic() + self._stream_again_seconds
            self._stream_again_seconds *= 2

    def _look(self) -> Iterator[JobView | Away]:
        try:
            seen = self._client.poll(self._job_id, self._etag, retry=False)
        except ModelFailure as error:
            yield from self._miss(error)
            return
        if self._away_since is not None:
            self._away_since, self._stream_due_at = None, 0.0
        self._looked_at, self._etag = time.monotonic(), seen.etag
        self._wait = min(seen.retry_after or _POLL_SECONDS, _LONGEST_POLL_SECONDS)
        if seen.job is not None:
            self._ended = seen.job.state in ENDED
            yield seen.job

    def _miss(self, error: ModelFailure) -> Iterator[Away]:
        self._wait = _POLL_SECONDS
        if self._away_since is None:
            # Without an ETag the first look after the absence shows the job, changed or not.
            self._away_since, self._etag = time.monotonic(), None
            yield Away(str(error))
        elif time.monotonic() > self._away_since + self._patience_seconds:
            minutes = self._patience_seconds / 60
            raise ModelFailure(
                f"gave up after {minutes:.0f} minutes ({error}); the job is not touched by that: watch it again later"
            ) from error
