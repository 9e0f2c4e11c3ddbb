"""Poller: the thread that asks the service for the map, again and again, and never dies of an answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

from skipmap.serving.events import MapEvent
from skipmap.serving.fetching import Fetcher, FetchFault
from skipmap.serving.forks import gate
from skipmap.serving.holding import Holding
from skipmap.serving.schedule import Schedule

LOOK_SECONDS = 5.0
"""Between polls the state is looked at this often, so that an expiry or a jump of the clock is told of in time."""

_BUSY = (429, 503)

_log = logging.getLogger("skipmap.serving")


def channel_path(map_name: str, channel: str) -> str:
    """Where a service hands out a channel."""
    return f"/api/v1/maps/{quote(map_name, safe='')}/channels/{quote(channel, safe='')}"


class Poller:
    """One thread of one process. ``after``: called after every poll; ``first``: told before the first one."""

    def __init__(
        self,
        holding: Holding,
        fetcher: Fetcher,
        path: str,
        schedule: Schedule,
        after: Callable[[], None],
        tell: Callable[[MapEvent], None],
        first: MapEvent | None = None,
    ) -> None:
        self._holding, self._fetcher, self._path, self._schedule = holding, fetcher, path, schedule
        self._after, self._tell, self._first = after, tell, first
        self._turn = threading.Condition()
        self._asked = self._answered = 0
        self._is_stopped = self._is_wait_refused = False
        self.thread = threading.Thread(target=self._run, name="skipmap-poll", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether polls go on."""
        return self.thread.is_alive() and not self._is_stopped

    def stop(self) -> None:
        """Poll no more, and give up the poll at hand."""
        with self._turn:
            self._is_stopped = True
            self._turn.notify_all()
        self._fetcher.close()

    def forget_inherited(self) -> None:
        """In a forked child: see Fetcher."""
        self._fetcher.forget_inherited()

    def refresh(self, timeout_seconds: float) -> bool:
        """Poll now and wait for the outcome; whether a poll that began after this call has ended in time."""
        with self._turn:
            self._asked += 1
            number = self._asked
            self._turn.notify_all()
        # Any other request ends soon by itself; if each of many callers ended it, none would ever be answered.
        self._fetcher.give_up(if_waiting=True)
        with self._turn:
            self._turn.wait_for(lambda: self._answered >= number or self._is_stopped, timeout_seconds)
            return self._answered >= number

    def wait_for(self, condition: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait until something is so; it is looked at after every poll."""
        with self._turn:
            return (
                self._turn.wait_for(lambda: condition() or self._is_stopped, timeout_seconds) and condition()
            )

    def _run(self) -> None:
        with gate().entered():
            self._follow()

    def _follow(self) -> None:
        if self._first is not None:
            self._tell(self._first)
        pause = self._schedule.at_start(self._holding.held is not None)
        while self._pause(pause):
            number = self._asked
            try:
                found = self._poll(number)
            except Exception as error:
                # Whatever it is: without this thread the node would never hear of a map again.
                _log.exception("a poll failed")
                self._holding.fail(f"polling failed inside this node ({type(error).__name__}: {error})")
                found = self._schedule.after_failure()
            pause = 0.0 if found is None else found
            self._announce()
            if found is not None:
                with self._turn:
                    self._answered = number
                    self._turn.notify_all()
                self._tell_after()

    def _pause(self, seconds: float) -> bool:
        """Wait for the next turn, looking at the state meanwhile; False when there is none."""
        end = time.monotonic() + seconds
        while True:
            with self._turn:
                left = end - time.monotonic()
                if self._is_stopped or left <= 0 or self._asked > self._answered:
                    return not self._is_stopped
                expiry = self._holding.seconds_left()
                with gate().parked():
                    self._turn.wait(min(left, LOOK_SECONDS, expiry or LOOK_SECONDS))
            self._announce()

    def _announce(self) -> None:
        try:
            self._holding.announce()
        except Exception:
            _log.exception("the state could not be told")

    def _tell_after(self) -> None:
        try:
            self._after()
        except Exception:
            _log.exception("what comes after a poll failed")

    def _poll(self, number: int) -> float | None:
        """One exchange; returns the seconds until the next one, None when it was given up half way."""
        self._holding.revise()
        etag = self._holding.etag()
        headers = {} if etag is None else {"If-None-Match": etag}
        # Who asked for an answer now must not wait for the next change.
        may_wait = etag is not None and number == self._answered and not self._is_wait_refused
        wait = self._schedule.long_poll_seconds if may_wait else None
        self._is_wait_refused = False
        if wait is not None:
            headers["Prefer"] = f"wait={wait:.0f}"
        try:
            answer = self._fetcher.fetch(
                "GET",
                self._path,
                headers=headers,
                wait_seconds=wait or 0.0,
                unless=lambda: wait is not None and self._asked > number,
            )
        except FetchFault as fault:
            if fault.given_up:
                return None
            if wait is not None and fault.status in _BUSY:
                # A service with too many waiting requests may well answer one that does not wait.
                self._is_wait_refused = True
                return self._schedule.after_failure()
            self._holding.fail(str(fault))
            return self._schedule.after_failure(fault.retry_after)
        if self._is_stopped:
            return None
        return self._settle(answer.status, answer.body, wait, answer.seconds)

    def _settle(self, status: int, body: bytes, wait: float | None, seconds: float) -> float:
        changed = False
        if status == 304:
            if self._holding.held is None:
                self._holding.fail("the service says that nothing has changed, but this node has no map")
                return self._schedule.after_failure()
            self._holding.confirm()
        elif status == 200:
            changed = self._holding.offer(body)
            check = self._holding.check
            if check is not None and not check.is_good:
                return self._schedule.after_failure()
        else:
            self._holding.fail(f"the service answers {status}, which no map comes with")
            return self._schedule.after_failure()
        return self._schedule.after_success(changed=changed, asked_to_wait=wait, seconds=seconds)
