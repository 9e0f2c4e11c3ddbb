"""From settings to a running Celery worker: a parent that only receives messages, and one child that works."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery, signals
from celery.platforms import SecurityWarning

from models.base import is_id
from models.database import Database
from models.errors import Unavailable
from models.logs import set_up_logging
from models.settings import ServiceSettings
from models.workers import drain
from workers.app import ANY_QUEUE, MESSAGE_VERSION, make_app, queue_of
from workers.child import Child
from workers.engine import Engine
from workers.slot import Place, PlaceLock
from workers.transport import RING

_START_PAUSE_SECONDS = 5.0

_log = structlog.get_logger(__name__)


def run_worker(
    settings: ServiceSettings,
    place: Place,
    lock: PlaceLock,
    make_engine: Callable[[], Engine],
) -> int:
    """Run until SIGTERM; then the child leaves its chunk at the next forward. Returns the exit code.

    ``make_engine`` is called in the child. Raises OwnerBusy when the place is taken.
    """
    lock.acquire()
    app = make_app(settings)
    children: list[Child] = []

    def ring(version: Any = None, chunk_id: Any = None, *_: Any, **__: Any) -> None:
        # Whoever can write to the broker can ring, and no more: what is done is decided from the database.
        known = version == MESSAGE_VERSION and isinstance(chunk_id, str) and is_id(chunk_id)
        children[0].work(chunk_id if known else None)

    app.task(ring, name=RING)

    def start_child(**_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Celery would log an error and go on with a child that can do nothing.
        while not children:
            try:
                child = Child(settings, place, lock, make_engine())
                child.start()
                children.append(child)
            except Exception:
                _log.exception("this worker cannot start yet", next_try_seconds=_START_PAUSE_SECONDS)
                time.sleep(_START_PAUSE_SECONDS)
            if lock.is_draining and not children:
                os._exit(1)

    def set_up(**_: Any) -> None:
        set_up_logging(settings.log_format)

    def ask_to_drain(**_: Any) -> None:
        _log.info("draining: the chunk at hand is given back at the next forward")
        lock.drain.touch()
        # A signal handler calls this; the database may take its time.
        threading.Thread(target=_note_draining, args=(settings, place.owner), daemon=True).start()

    signals.setup_logging.connect(set_up)
    signals.worker_process_init.connect(start_child)
    signals.worker_shutting_down.connect(ask_to_drain)
    return _serve(app, place, lock)


def _quiet_about_root() -> None:
    # Celery warns of root because of pickled messages, which this application does not accept.
    warnings.filterwarnings("ignore", category=SecurityWarning)


def _serve(app: Celery, place: Place, lock: PlaceLock) -> int:
    _quiet_about_root()
    # Celery's command line would give 0 for a worker that has ended with an error.
    worker = app.Worker(
        hostname=f"{place.owner.replace('/', '.')}@{platform.node()}",
        pool_cls="prefork",
        concurrency=1,
        queues=[ANY_QUEUE, queue_of(place.device_class)],
        loglevel="INFO",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    try:
        worker.start()
        return int(worker.exitcode or 0)
    finally:
        lock.leave()


def _note_draining(settings: ServiceSettings, owner: str) -> None:
    database = Database(settings, name="skipmap-drain")
    try:
        database.transaction(drain, owner)
    except Unavailable:
        return
    finally:
        database.close()
