"""Sends reports to the service from a thread of its own; a slow or absent service delays nothing else."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from skipmap.serving.fetching import Fetcher, FetchFault
from skipmap.serving.forks import gate
from skipmap.serving.report import NodeReport

_QUEUE_LENGTH = 16

_log = logging.getLogger("skipmap.serving")


class Reporter:
    """Each report is sent once, in order; while the service is slow the oldest ones are dropped.

    ``complete``: adds to a report what only takes time to find out, in the reporter's own thread.
    """

    def __init__(self, fetcher: Fetcher, path: str, complete: Callable[[NodeReport], NodeReport]) -> None:
        self._fetcher, self._path, self._complete = fetcher, path, complete
        self._queue: deque[NodeReport] = deque(maxlen=_QUEUE_LENGTH)
        self._filled = threading.Event()
        self._is_stopped = False
        self._last_problem: str | None = None
        self.thread = threading.Thread(target=self._run, name="skipmap-report", daemon=True)

    def put(self, report: NodeReport) -> None:
        """Send a report some time soon; returns at once."""
        self._queue.append(report)
        self._filled.set()

    def stop(self) -> None:
        """Send nothing more, and give up what is being sent."""
        self._is_stopped = True
        self._filled.set()
        self._fetcher.close()

    def forget_inherited(self) -> None:
        """In a forked child: see Fetcher."""
        self._fetcher.forget_inherited()

    def _run(self) -> None:
        with gate().entered():
            self._send_all()

    def _send_all(self) -> None:
        while True:
            with gate().parked():
                self._filled.wait()
            self._filled.clear()
            while self._queue and not self._is_stopped:
                self._send(self._queue.popleft())
            if self._is_stopped:
                return

    def _send(self, report: NodeReport) -> None:
        try:
            body = self._complete(report).model_dump_json().encode()
            self._fetcher.fetch(
                "POST",
                self._path,
                headers={"Content-Type": "application/json"},
                content=body,
            )
        except FetchFault as fault:
            self._note(None if fault.given_up else str(fault))
        except Exception:
            _log.exception("a report could not be made")
        else:
            self._note(None)

    def _note(self, problem: str | None) -> None:
        # The next report tells the same again, so the log does not have to.
        level = logging.WARNING if problem != self._last_problem else logging.DEBUG
        if problem is not None:
            _log.log(level, "a report was not taken: %s", problem)
        self._last_problem = problem
