"""The child process of a worker: the only one that loads targets and touches the device."""

from __future__ import annotations

import os
import platform
import signal
import time
from uuid import uuid4

import structlog
from sqlalchemy.orm import Session

from models.base import new_id
from models.claim import Claim, claim
from models.crash import reclaim
from models.database import Database
from models.errors import OwnerBusy, Unavailable
from models.failpoints import reach
from models.settings import ServiceSettings
from models.workers import Slot, register, seen
from skipmap import __version__
from workers.chunk import Broken, Workbench
from workers.engine import Engine
from workers.pulse import Pulse
from workers.slot import Place, PlaceLock

_log = structlog.get_logger(__name__)


class Child:
    """Claims chunks and works on them until nothing is left to claim."""

    def __init__(self, settings: ServiceSettings, place: Place, lock: PlaceLock, engine: Engine) -> None:
        self._settings = settings
        self._slot = Slot(
            owner=place.owner,
            host=platform.node(),
            pid=os.getpid(),
            boot_id=new_id(),
            device_class=engine.device_class,
            engine=engine.version,
            version=__version__,
        )
        self._database = Database(settings, name="skipmap-worker")
        # Beats may be lost and must not wait: they have connections of their own, which give up at once.
        beats = settings.model_copy(update={"retry_seconds": 0.0, "pool_size": 1})
        self._pulse = Pulse(Database(beats, name="skipmap-pulse", durable=False), settings, self._slot, lock)
        self._bench = Workbench(self._database, settings, engine, self._pulse)

    def start(self) -> None:
        """Take over the place: what the process before it left behind becomes claimable at once."""
        lost = self._bench.persist(self._take_over)
        _log.info("worker ready", owner=self._slot.owner, taken_back=lost)
        self._pulse.start()

    def work(self, hint: str | None) -> int:
        """Work on the hinted chunk, then on the best pending ones until there are none; returns how many."""
        done = 0
        while not self._pulse.is_draining:
            claimed = self._claim(hint)
            if claimed is None and not done and self._may_claim():
                claimed = self._claim(hint)
            hint = None
            if claimed is None:
                break
            reach("worker.claimed")
            try:
                self._bench.work_on(claimed)
            except Unavailable:
                break
            except Exception as error:
                # A claim that cannot be ended is taken back from the next process of this place.
                _log.critical("this process cannot go on and ends", exc_info=not isinstance(error, Broken))
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
        return done

    def _may_claim(self) -> bool:
        """Wait for the end of a quarantine, so that messages go to those who can answer them; False when draining."""
        while not self._pulse.is_draining:
            if self._bench.persist(seen, self._slot):
                return True
            time.sleep(self._settings.watch_seconds)
        return False

    def _claim(self, hint: str | None) -> Claim | None:
        token = uuid4()
        try:
            return self._bench.persist(claim, self._settings, self._slot, token, hint)
        except OwnerBusy:
            _log.exception("this place has two workers")
            time.sleep(self._settings.watch_seconds)
        except Unavailable:
            _log.warning("draining without a database")
        return None

    def _take_over(self, session: Session) -> int:
        lost = reclaim(session, self._settings, self._slot.owner)
        register(session, self._slot)
        return lost
