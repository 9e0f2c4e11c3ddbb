"""Uses: notes that tokens and sessions are used, in a thread of its own, so that no request waits for that or fails."""

from __future__ import annotations

import threading

import structlog

from models.database import Database
from models.errors import Unavailable
from models.users import Use
from models.uses import note_use

_log = structlog.get_logger(__name__)


class Uses:
    """Writes down uses one after the other; the thread runs while there are any. What cannot be noted is let go."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: set[Use] = set()
        self._lock = threading.Lock()
        self._writing = False

    def note(self, use: Use | None) -> None:
        """Have a use noted soon; None: there is nothing to note."""
        if use is None:
            return
        with self._lock:
            self._waiting.add(use)
            if self._writing:
                return
            self._writing = True
        threading.Thread(target=self._write, name="uses", daemon=True).start()

    def _write(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._writing = False
                    return
                use = self._waiting.pop()
            try:
                self._database.read(note_use, use)
            except Unavailable as error:
                _log.warning("a use is not noted", cause=str(error))
            except Exception:
                # Nobody else would start another thread.
                _log.exception("a use cannot be noted")
