"""The pulse: a thread that keeps a worker's lease alive while forwards finish, and watches for reasons to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

from models.claim import Claim
from models.database import Database
from models.errors import LostLease, Unavailable
from models.lease import Beat, StopReason, heartbeat, look, release
from models.settings import ServiceSettings
from models.workers import Slot, seen
from workers.slot import PlaceLock

_log = structlog.get_logger(__name__)


class Stopped(Exception):
    """The chunk is to be left at once; ``reason`` says why, None when it is somebody else's by now."""

    def __init__(self, reason: StopReason | None) -> None:
        self.reason = reason
        super().__init__(reason or "lost")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Pulse:
    """Signs of life of one worker process.

    With a chunk: renews its lease, looks for cancel, pause and drain, and ends the process when no forward finishes
    in time, since a hung device cannot be interrupted. Without one: says that the worker is there.
    """

    def __init__(
        self,
        database: Database,
        settings: ServiceSettings,
        slot: Slot,
        lock: PlaceLock,
        die: Callable[[], None] = _die,
    ) -> None:
        self._database, self._settings, self._slot, self._lock, self._die = (
            database,
            settings,
            slot,
            lock,
            die,
        )
        self._guard = threading.Lock()
        self._claim: Claim | None = None
        self._stop: Stopped | None = None
        self._limit = settings.stall_seconds
        self._loading = False
        self._moved_at = self._beaten_at = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def end(self) -> None:
        """Stop beating; waits for the beat at hand."""
        self._ended.set()
        self._thread.join()

    @property
    def is_draining(self) -> bool:
        """Whether this worker was asked to stop."""
        return self._lock.is_draining

    @contextmanager
    def watching(self, claim: Claim) -> Iterator[None]:
        """Keep the claim alive meanwhile; its target may take ``load_seconds`` to load before the first ``tick``."""
        now = time.monotonic()
        with self._guard:
            self._claim, self._stop, self._limit = claim, None, self._settings.load_seconds
            self._moved_at = self._beaten_at = now
            self._loading = True
        try:
            yield
        finally:
            with self._guard:
                self._claim = None

    def wait(self) -> None:
        """The work waits for the database, which is no sign of a hung device."""
        self._moved_at = time.monotonic()

    def tick(self) -> None:
        """A forward has finished; raises Stopped when the chunk is to be left."""
        self._moved_at = time.monotonic()
        self._loading = False
        self._limit = self._settings.stall_seconds
        if self._stop is not None:
            raise self._stop

    def heed(self, beat: Beat) -> None:
        """Take in what a write has brought back; raises Stopped when the chunk is to be left."""
        self._moved_at = self._beaten_at = time.monotonic()
        if self.is_draining:
            raise Stopped("drain")
        if beat.stop is not None:
            raise Stopped(beat.stop)

    def _run(self) -> None:
        while not self._ended.wait(self._settings.watch_seconds):
            with self._guard:
                claim = self._claim
            try:
                if claim is None:
                    self._idle()
                else:
                    self._watch(claim)
            except Unavailable:
                # While the database is away nobody can take the chunk over, and work that waits for it does not hang.
                self._moved_at = time.monotonic()
            except Exception:
                _log.exception("beat failed")

    def _idle(self) -> None:
        now = time.monotonic()
        if now - self._beaten_at >= self._settings.heartbeat_seconds:
            self._lock.alive.touch()
            self._database.transaction(seen, self._slot)
            self._beaten_at = now

    def _watch(self, claim: Claim) -> None:
        now = time.monotonic()
        if now - self._moved_at > self._limit:
            _log.error(
                "no forward finished in time, so this process ends", seconds=round(now - self._moved_at)
            )
            self._die()
            return
        if self._lock.is_draining:
            if self._loading:
                self._give_up_loading(claim)
                return
            self._note(claim, Stopped("drain"))
        try:
            if now - self._beaten_at >= self._settings.heartbeat_seconds:
                self._lock.alive.touch()
                beat = self._database.transaction(heartbeat, self._settings, claim)
                self._beaten_at = now
            else:
                beat = self._database.read(look, claim)
        except LostLease:
            self._note(claim, Stopped(None))
            return
        if beat.stop is not None:
            self._note(claim, Stopped(beat.stop))

    def _give_up_loading(self, claim: Claim) -> None:
        """Loading cannot be interrupted, and may take longer than a draining worker is left: end with the process."""
        with suppress(LostLease, Unavailable):
            self._database.transaction(release, claim)
        _log.info("draining while a target loads, so this process ends")
        self._die()

    def _note(self, claim: Claim, stop: Stopped) -> None:
        with self._guard:
            # The chunk may have been finished meanwhile; what was seen is then of no use.
            if self._claim is not None and self._claim.token == claim.token and self._stop is None:
                self._stop = stop
