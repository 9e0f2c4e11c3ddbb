"""``python -m workers.reconciler``: sweeps the stored state and rings the workers; two or more may run."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from models.database import Database
from models.dispatch import Doorbell, undispatch
from models.errors import Unavailable
from models.failpoints import reach
from models.logs import set_up_logging
from models.reconcilers import note_sweep
from models.retention import forget_old
from models.settings import ServiceSettings, get_settings
from models.sweep import Sweep, sweep
from models.workers import forget_workers
from skipmap.errors import SkipmapError
from skipmap.settings import get_settings as get_library_settings
from workers.app import make_app, ring

_CANARY = "skipmap:canary"
_NOTE_SECONDS = 2.0
_FORGET_SECONDS = 60.0
_WORKERS_SECONDS = 7 * 86400.0
_BROKER_PAUSE_SECONDS = 0.5
_BROKER_PAUSE_CAP_SECONDS = 15.0
_BROKER_ERRORS = (OperationalError, RedisError, OSError)

_log = structlog.get_logger(__name__)


class Broker:
    """The broker as the reconciler needs it: publish, and notice when it is away or has lost its data."""

    def __init__(self, app: Celery, url: str) -> None:
        self._app = app
        # redis-py spells the address of a Unix socket differently.
        address = url.replace("redis+socket://", "unix://").replace("rediss+socket://", "unix://")
        self._client = Redis.from_url(address, socket_timeout=2, socket_connect_timeout=2)
        self._pause = 0.0
        self._next = 0.0

    def look(self) -> tuple[bool, bool]:
        """Whether it can be reached, and whether its data are new: then every message is lost."""
        if time.monotonic() < self._next:
            return False, False
        try:
            is_new = bool(self._client.set(_CANARY, 1, nx=True))
        except _BROKER_ERRORS as error:
            self._away(error)
            return False, False
        if self._pause:
            _log.info("the broker is back")
        self._pause = 0.0
        return True, is_new

    def publish(self, doorbells: list[Doorbell]) -> list[str]:
        """Send messages; returns the chunks whose message could not be sent."""
        for done, doorbell in enumerate(doorbells):
            try:
                ring(self._app, doorbell)
            except _BROKER_ERRORS as error:
                self._away(error)
                return [left.chunk_id for left in doorbells[done:]]
        return []

    def _away(self, error: Exception) -> None:
        if not self._pause:
            _log.warning("the broker does not answer; jobs wait", error=str(error).splitlines()[:1])
        self._pause = min(_BROKER_PAUSE_CAP_SECONDS, self._pause * 2 or _BROKER_PAUSE_SECONDS)
        self._next = time.monotonic() + self._pause


class Reconciler:
    """Sweeps again and again; every step is safe to repeat, so killing it at any time does no harm."""

    def __init__(self, settings: ServiceSettings, database: Database, broker: Broker, alive: Path) -> None:
        self._settings, self._database, self._broker, self._alive = settings, database, broker, alive
        self._name = f"{platform.node()}:{os.getpid()}"
        self._connected_at: datetime | None = None
        self._noted = self._forgot = float("-inf")
        self.stop = threading.Event()

    def run(self) -> None:
        """Sweep until ``stop`` is set."""
        _log.info("reconciler ready", name=self._name)
        while not self.stop.is_set():
            try:
                self.tick()
            except Unavailable as error:
                _log.warning("the database does not answer", error=str(error))
                self._connected_at = None
            except Exception:
                _log.exception("sweep failed")
            # Being cut off is no reason to be restarted.
            self._alive.touch()
            self.stop.wait(self._settings.sweep_seconds)
        self._alive.unlink(missing_ok=True)

    def tick(self) -> Sweep:
        """One sweep; raises Unavailable."""
        now = self._answering()
        reachable, is_new = self._broker.look()
        if is_new:
            # Its data are gone, or it is the first time: nothing that was sent before counts any more.
            self._database.transaction(undispatch, None)
        done = sweep(self._database, self._settings, now, ring=reachable)
        reach("reconciler.before_publish")
        unsent = self._broker.publish(done.doorbells)
        reach("reconciler.after_publish")
        if unsent:
            self._database.transaction(undispatch, unsent)
        self._note(done)
        return done

    def _answering(self) -> datetime:
        """Since when the database has answered every time; raises Unavailable."""
        now = self._database.connected_at()
        self._connected_at = self._connected_at or now
        return self._connected_at

    def _note(self, done: Sweep) -> None:
        if done.expired or done.split or done.failed:
            _log.warning("took chunks back", expired=done.expired, split=done.split, set_aside=done.failed)
        if done.advanced:
            _log.info("advanced levels", levels={level: step.name for level, step in done.advanced.items()})
        now = time.monotonic()
        if now - self._noted >= _NOTE_SECONDS:
            self._database.transaction(note_sweep, self._name)
            self._noted = now
        if now - self._forgot >= _FORGET_SECONDS:
            self._forgot = now
            self._database.transaction(forget_workers, _WORKERS_SECONDS)
            forget_old(self._database, self._settings)


def main() -> int:
    """Run until SIGTERM or SIGINT; returns an exit code."""
    try:
        settings = get_settings()
        set_up_logging(settings.log_format)
        app = make_app(settings)
        folder = get_library_settings().home / "run"
        folder.mkdir(parents=True, exist_ok=True)
        assert settings.broker_url is not None
        # A sweep that is cut off is tried again by the next one, not by its transactions.
        brisk = settings.model_copy(update={"retry_seconds": 0.0})
        reconciler = Reconciler(
            settings,
            Database(brisk, name="skipmap-reconciler"),
            Broker(app, settings.broker_url),
            folder / f"reconciler-{os.getpid()}.alive",
        )
    except SkipmapError as error:
        print(f"skipmap reconciler: {error}", file=sys.stderr)
        return error.exit_code
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: reconciler.stop.set())
    reconciler.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
