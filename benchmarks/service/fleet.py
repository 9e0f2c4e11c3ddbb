"""A fleet of nodes that poll for a minute, each as often as a real one and with its reports, while a channel moves."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import gevent

from benchmarks.service.figures import milliseconds
from benchmarks.service.published import CHANNEL, DOMAINS, MAP, PATH, published
from benchmarks.service.watch import Memory, cores_of, memory_mib, memory_of
from benchmarks.service.wire import Line, Reply, allow_files, load, request_bytes, unpacked
from skipmap.client.paths import node_path
from skipmap.maps.keys import TrustedKeys
from skipmap.serving.acceptance import ActiveMap, Expectation, Floor, accept
from skipmap.serving.report import DomainCounters, NodeReport
from skipmap.serving.schedule import PollInterval, Schedule, offset_of

NODES = 10_000
INTERVAL = PollInterval(20.0, 40.0)
SECONDS = 60.0
MOVES_AT = (5.0, 18.0)
"""Seconds into the minute; the longest pause after the last one is still within it."""
FLAT = 1.05
"""Memory is flat when the last third of the minute takes no more than so many times that of the first."""

_FILES = 4000
_SILENCE_SECONDS = 10.0
_ERRORS_SHOWN = 5


def fleet() -> dict[str, Any]:
    """Answers, errors, time from a promotion to its use, and memory of the processes that answer."""
    with published() as shop:
        workers = shop.server.workers()
        before = memory_mib(workers)
        with load(_fleet, shop.server.port, shop.node_token(), shop.trusted.public_pem()) as nodes:
            begin = nodes.receive()
            moves = []
            _until(begin)
            with memory_of(workers) as memory, cores_of(shop, nodes.pid) as cores:
                for at in MOVES_AT:
                    _until(begin + at)
                    moved = time.monotonic()
                    moves.append((moved, shop.promote().sequence))
                seen = nodes.receive()
        reported = "SELECT count(*) FROM nodes WHERE sequence = :sequence AND state = 'FRESH'"
        (up_to_date,) = shop.on.sql(reported, sequence=moves[-1][1])
    return {
        "nodes": NODES,
        "tokens": 1,
        "seconds": SECONDS,
        "poll_seconds": [INTERVAL.low, INTERVAL.high],
        "requests_per_second": sum(map(len, seen.times.values())) / SECONDS,
        "requests": {
            kind: {"count": len(times), **milliseconds(times)} for kind, times in seen.times.items()
        },
        "errors": sum(seen.errors.values()),
        "errors_by_kind": dict(seen.errors.most_common(_ERRORS_SHOWN)),
        "reported_up_to_date": up_to_date,
        "seconds_until_used": [_lag(seen, *move) for move in moves],
        "memory_mib": _memory(memory, before, begin),
        "cores": cores,
    }


@dataclass
class Seen:
    """What the nodes saw within the minute. ``used``: when a node began to use a sequence."""

    times: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    used: list[tuple[float, int, str]] = field(default_factory=list)


def _until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _lag(seen: Seen, moved: float, sequence: int) -> dict[str, float]:
    """Seconds from a promotion until nodes use it, or what came after it."""
    first: dict[str, float] = {}
    for at, used, node in seen.used:
        if used >= sequence:
            first.setdefault(node, at - moved)
    if not first:
        return {"nodes": 0}
    found = {
        name.replace("_ms", ""): value / 1000 for name, value in milliseconds(list(first.values())).items()
    }
    return {"nodes": len(first), **found}


def _memory(memory: Memory, before: float, begin: float) -> dict[str, Any]:
    thirds = [memory.mean(begin + SECONDS / 3 * n, begin + SECONDS / 3 * (n + 1)) for n in range(3)]
    return {
        "before": before,
        "thirds": thirds,
        "peak": memory.peak,
        "last_over_first": thirds[-1] / thirds[0],
        "is_flat": thirds[-1] <= FLAT * thirds[0],
    }


def _fleet(port: int, secret: str, trusted: str) -> Iterator[Any]:
    """When the minute begins, then what was seen in it. Before it every node has polled."""
    allow_files(_FILES)
    expected = Expectation.of(MAP, CHANNEL, trusted, "any", None)
    begin = time.monotonic() + INTERVAL.high
    shared = _Shared(port, secret, expected, TrustedKeys.of(trusted).key_ids, begin, Seen())
    nodes = [gevent.spawn(_Node(shared, f"node-{number:05}").run) for number in range(NODES)]
    yield begin
    gevent.joinall(nodes, raise_error=True)
    yield shared.seen


@dataclass
class _Shared:
    port: int
    secret: str
    expected: Expectation
    key_ids: tuple[str, ...]
    begin: float
    seen: Seen
    checked: dict[bytes, ActiveMap] = field(default_factory=dict)

    def check(self, body: bytes) -> ActiveMap:
        """A node's own checks; done once for the same bytes."""
        found = self.checked.get(body)
        if found is None:
            outcome = accept(unpacked(body), self.expected, Floor(), time.time())
            if not isinstance(outcome, ActiveMap):
                raise OSError(f"refused: {outcome.reason}")
            found = self.checked[body] = outcome
        return found


class _Node:
    """One node, as ``skipmap.serving.MapClient`` asks and reports: a connection a request, a report after each poll."""

    def __init__(self, shared: _Shared, name: str) -> None:
        self._shared, self._name = shared, name
        self._schedule = Schedule(INTERVAL, name)
        self._etag = ""
        self._active: ActiveMap | None = None
        self._since = datetime.now(UTC)
        self._requests = 0

    def run(self) -> None:
        """Poll until the minute is over."""
        end = self._shared.begin + SECONDS
        # A fleet that has run for long: longer pauses are more likely to be at hand, and a part of them is over.
        pause = offset_of(self._name) * math.sqrt(random.uniform(INTERVAL.low**2, INTERVAL.high**2))
        # Past the first pause, which spreads nodes that start together.
        self._schedule.after_success(changed=True, asked_to_wait=None, seconds=0.0)
        while time.monotonic() + pause < end:
            gevent.sleep(pause)
            pause = self._turn()

    def _turn(self) -> float:
        try:
            self._poll()
            self._report()
        except OSError as error:
            self._shared.seen.errors[f"{type(error).__name__}: {error}"] += 1
            return self._schedule.after_failure()
        return self._schedule.after_success(changed=False, asked_to_wait=None, seconds=0.0)

    def _poll(self) -> None:
        known = {"If_None_Match": self._etag} if self._etag else {}
        reply = self._ask(request_bytes("GET", PATH, self._shared.secret, **known), (200, 304))
        if reply.status == 304:
            return
        active = self._shared.check(reply.body)
        if self._active is not None and active.sequence < self._active.sequence:
            raise OSError(f"sequence {active.sequence} came after {self._active.sequence}")
        self._active, self._etag, self._since = active, reply.etag, datetime.now(UTC)
        self._shared.seen.used.append((time.monotonic(), active.sequence, self._name))

    def _report(self) -> None:
        assert self._active is not None
        self._requests += 40
        counters = DomainCounters(
            requests=self._requests,
            prompt_tokens=300 * self._requests,
            completion_tokens=80 * self._requests,
            verification_steps=40 * self._requests,
            emitted_tokens=80 * self._requests,
            accepted_drafts=40 * self._requests,
            blocks_run=1100 * self._requests,
            blocks_dense=1200 * self._requests,
        )
        report = NodeReport(
            node=self._name,
            map=MAP,
            channel=CHANNEL,
            version=self._active.version,
            sequence=self._active.sequence,
            digest=self._active.digest,
            key_ids=self._shared.key_ids,
            state="FRESH",
            reason="the service confirmed the map",
            since=self._since,
            fetched_at=datetime.now(UTC),
            poll_seconds=INTERVAL.high,
            target_fingerprint=self._active.document.target.fingerprint,
            software="skipmap/bench",
            domains=dict.fromkeys(DOMAINS, counters),
        )
        body = report.model_dump_json().encode()
        path = node_path(self._name, "/report")
        self._ask(request_bytes("POST", path, self._shared.secret, body), (204,))

    def _ask(self, request: bytes, wanted: tuple[int, ...]) -> Reply:
        began = time.monotonic()
        with Line(self._shared.port, _SILENCE_SECONDS) as line:
            reply = line.ask(request)
        if reply.status not in wanted:
            raise OSError(f"answered {reply.status}: {reply.body[:200]!r}")
        if began >= self._shared.begin:
            kind = "report" if 204 in wanted else f"poll, {reply.status}"
            self._shared.seen.times.setdefault(kind, []).append(time.monotonic() - began)
        return reply
