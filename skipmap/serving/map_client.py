"""MapClient: keeps the map of a channel at hand for a serving process, and never stands in a request's way."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from skipmap import __version__
from skipmap.errors import InvalidInput
from skipmap.maps.envelope import MAX_ENVELOPE_BYTES
from skipmap.maps.keys import TrustedKeys
from skipmap.serving.acceptance import ANY_TARGET, ActiveMap, Expectation
from skipmap.serving.address import Service
from skipmap.serving.disk import DiskStore
from skipmap.serving.events import Announcer, ForkDetected, MapEvent
from skipmap.serving.fetching import DEADLINE_SECONDS, Fetcher
from skipmap.serving.forks import gate, watch
from skipmap.serving.holding import Holding
from skipmap.serving.naming import NodeName
from skipmap.serving.polling import Poller, channel_path
from skipmap.serving.report import MAX_KEY_IDS, DomainCounters, NodeReport
from skipmap.serving.reporter import Reporter
from skipmap.serving.schedule import DEFAULT_POLL_SECONDS, PollInterval, Schedule, deadline_of, long_poll_of
from skipmap.serving.standing import Clock, OnExpired
from skipmap.skipset import SkipSet

_log = logging.getLogger("skipmap.serving")

Counters = Callable[[int | None], dict[str, DomainCounters]]
"""Figures by domain of what was served with a version of the map; None: without one."""

_STOP_SECONDS = 5.0
_SILENCE_MARGIN_SECONDS = 5.0


@dataclass
class _Run:
    """What belongs to one process alone: its threads, locks and sockets. A fork gets a new one."""

    pid: int
    lock: threading.Lock
    poller: Poller | None = None
    reporter: Reporter | None = None
    is_wanted: bool = False


class MapClient:
    """Follows a channel: fetches its map, checks it, keeps it on disk, reports what this node runs.

    Only the constructor raises, for values that can never work. Later trouble of any kind leaves the last good map in
    use, or none, which is dense; ``status`` says which and why. A forked child (gunicorn with preload, Celery's
    prefork) goes on by itself with the map of its parent, threads of its own and its pid behind its node id.

    Args:
        server: address of the service, with a path if it lies behind one.
        map: name of the map.
        channel: the channel to follow.
        token: bearer token that may read maps and report nodes.
        trusted_keys: public keys, a file of them, or their PEM text. Every map must be signed by one. A file is read
            again when it changes.
        fingerprint: of the target that this node runs; ``"any"`` takes maps of every model.
        num_layers: of that target; may be left out with ``"any"`` only.
        cache_dir: folder for the disk copy, which a restart begins with when the service is away.
        bootstrap: an envelope to begin with where there is no disk copy; refused when past its expiry.
        poll_seconds: shortest and longest pause between two polls.
        long_poll_seconds: let the service hold a poll back so long until something changes; None asks at intervals.
        deadline_seconds: time for one exchange with the service, without what a long poll is held back.
        on_expired: what to do past a map's expiry: ``keep`` using it, or run ``dense``.
        node_id: name of this node; by default host name and pid.
        on_event: hears of every event, from the thread that polls: what it raises is logged, and while it runs no
            poll is made.
        counters: figures of this process per domain, for the reports: what was served with the version it is given.
        report: whether to report to the service.
        plain_http: send the token over plain HTTP to another machine, on a network that is trusted.
        clock: where the time comes from.
    """

    def __init__(
        self,
        server: str,
        map: str,
        channel: str = "production",
        *,
        token: str | None = None,
        trusted_keys: TrustedKeys | Path | str | None,
        fingerprint: str | None,
        num_layers: int | None,
        cache_dir: Path | None = None,
        bootstrap: Path | None = None,
        poll_seconds: float | tuple[float, float] = DEFAULT_POLL_SECONDS,
        long_poll_seconds: float | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
        on_expired: OnExpired = "keep",
        node_id: str | None = None,
        on_event: Callable[[MapEvent], None] | None = None,
        counters: Counters | None = None,
        report: bool = True,
        plain_http: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._service = Service.at(server, token, plain_http=plain_http)
        self._expected = Expectation.of(map, channel, trusted_keys, fingerprint, num_layers)
        self._interval, self._long_poll = PollInterval.of(poll_seconds), long_poll_of(long_poll_seconds)
        self._deadline_seconds = deadline_of(deadline_seconds)
        if on_expired not in ("keep", "dense"):
            raise InvalidInput("on_expired", f"must be 'keep' or 'dense' (given: {on_expired!r})")
        self._name = NodeName(node_id)
        self._counters, self._wants_reports = counters, report
        self._emit = Announcer(on_event)
        disk = DiskStore(Path(cache_dir), self._service.url, map, channel) if cache_dir else None
        self._longest_silence = self._interval.high + (self._long_poll or 0.0)
        self._holding = Holding(
            self._expected,
            disk,
            Path(bootstrap) if bootstrap else None,
            clock or Clock(),
            self._longest_silence + self._deadline_seconds + _SILENCE_MARGIN_SECONDS,
            on_expired,
            self._emit,
        )
        self._run = _Run(os.getpid(), threading.Lock())
        self._runs = {self._run.pid: self._run}
        self._is_loaded = False
        watch(self)

    def start(self) -> MapClient:
        """Take what lies on the disk and begin to poll; nothing happens when it runs already."""
        run = self._here()
        with run.lock:
            if not self._is_loaded:
                self._is_loaded = True
                self._holding.load()
            if not run.is_wanted or run.poller is None or not run.poller.is_running:
                self._begin(run)
        return self

    def stop(self, timeout: float = _STOP_SECONDS) -> bool:
        """Poll no more; the map stays. Returns whether all threads ended within ``timeout`` seconds."""
        run = self._here()
        end = time.monotonic() + timeout
        with run.lock:
            run.is_wanted = False
            parts = [part for part in (run.poller, run.reporter) if part is not None]
        for part in parts:
            part.stop()
        for part in parts:
            # An event's callback may stop its own client.
            if part.thread is not threading.current_thread() and part.thread.ident is not None:
                part.thread.join(max(0.0, end - time.monotonic()))
        return not any(part.thread.is_alive() for part in parts)

    def __enter__(self) -> MapClient:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def current(self) -> ActiveMap | None:
        """The map to act on, None for dense; takes no lock and raises nothing."""
        if self._run.pid != os.getpid():
            self.after_fork()
        return self._holding.in_use

    def skip_for(self, domain: str | None) -> SkipSet:
        """The blocks that a domain skips now; dense without a good map or for a domain that it does not have."""
        active = self.current
        return SkipSet() if active is None else active.document.skip_for(domain)

    def status(self) -> NodeReport:
        """State, reason and figures of this node, as they are reported to the service."""
        self._here()
        return self._with_counters(self._snapshot())

    def refresh(self, timeout: float = DEADLINE_SECONDS) -> bool:
        """Ask the service now and wait for the outcome; True if the map is known to be the latest afterwards.

        False when the client is not running, or the answer did not come in time or was refused.
        """
        run = self._here()
        check_before = self._holding.check
        if run.poller is None or not run.poller.refresh(timeout):
            return False
        check = self._holding.check
        return check is not None and check is not check_before and check.is_good

    def wait(self, timeout: float) -> bool:
        """Wait until there is a map to act on; False when there is none within ``timeout`` seconds."""
        poller = self._here().poller
        if poller is not None:
            poller.wait_for(lambda: self._holding.in_use is not None, timeout)
        return self._holding.in_use is not None

    def after_fork(self) -> None:
        """Begin anew in a forked child. Called by itself; a second call in the same process does nothing."""
        pid = os.getpid()
        # Of several threads that notice at once one wins, and without a lock: the parent's may be taken for ever.
        run = _Run(pid, threading.Lock())
        if self._runs.setdefault(pid, run) is not run:
            return
        parent, self._run = self._run, run
        self._holding.after_fork()
        for part in (parent.poller, parent.reporter):
            if part is not None:
                part.forget_inherited()
        if parent.is_wanted:
            try:
                self._begin(run, ForkDetected(parent.pid, pid))
            except Exception:
                _log.exception("polling could not begin again after a fork; call start()")

    def _here(self) -> _Run:
        if self._run.pid != os.getpid():
            self.after_fork()
        return self._run

    def _begin(self, run: _Run, first: MapEvent | None = None) -> None:
        node = self._name.here()
        if self._wants_reports:
            path = f"/api/v1/nodes/{quote(node, safe='')}/report"
            run.reporter = Reporter(
                Fetcher(self._service, deadline_seconds=self._deadline_seconds), path, self._with_counters
            )
            run.reporter.thread.start()
        run.poller = Poller(
            self._holding,
            Fetcher(self._service, MAX_ENVELOPE_BYTES, self._deadline_seconds),
            channel_path(self._expected.map, self._expected.channel),
            Schedule(self._interval, node, self._long_poll),
            self._report,
            self._emit,
            first,
        )
        run.is_wanted = True
        run.poller.thread.start()

    def _report(self) -> None:
        reporter = self._run.reporter
        if reporter is not None:
            reporter.put(self._snapshot())

    def _snapshot(self) -> NodeReport:
        with gate().entered():
            return self._report_now()

    def _report_now(self) -> NodeReport:
        standing, since = self._holding.standing()
        active, last_good = self._holding.in_use, self._holding.last_good
        expected = self._expected
        return NodeReport(
            node=self._name.here(),
            map=expected.map,
            channel=expected.channel,
            version=None if active is None else active.version,
            sequence=None if active is None else active.sequence,
            digest=None if active is None else active.digest,
            state=standing.state,
            reason=standing.reason,
            since=datetime.fromtimestamp(since, UTC),
            fetched_at=None if last_good is None else datetime.fromtimestamp(last_good, UTC),
            poll_seconds=self._longest_silence,
            target_fingerprint=None if expected.fingerprint == ANY_TARGET else expected.fingerprint,
            software=f"skipmap/{__version__}",
            key_ids=expected.ring.keys.key_ids[:MAX_KEY_IDS],
        )

    def _with_counters(self, report: NodeReport) -> NodeReport:
        if self._counters is None:
            return report
        try:
            with gate().parked():
                domains = dict(self._counters(report.version))
            return report.model_copy(update={"domains": domains})
        except Exception:
            _log.exception("the counters could not be read")
            return report
