"""Nodes that wait for a move of their channel: how long until the last of them has the new envelope."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gevent
from gevent.event import Event

from benchmarks.service.figures import milliseconds
from benchmarks.service.published import PATH, Published, published
from benchmarks.service.server import Caller
from benchmarks.service.watch import cores_of, memory_mib, memory_of
from benchmarks.service.wire import Line, Load, allow_files, load, request_bytes, unpacked
from skipmap.client.maps import LONGEST_WAIT_SECONDS
from skipmap.serving.acceptance import ActiveMap, Floor, accept

WAITING = 2000
MOVES = 5
_OTHER_FILES = 100
_SILENCE_SECONDS = LONGEST_WAIT_SECONDS + 10.0
_PATIENCE_SECONDS = 120
_SPREAD_SECONDS = 1.0
"""Who has been answered waits again after up to so long, as nodes do."""
_WAITING_GAUGE = re.compile(r'^skipmap_long_polls\{process="(\d+)"\} ([0-9.]+)$', re.MULTILINE)


def long_polls() -> dict[str, Any]:
    """Seconds from a promotion to each answer, and memory of the processes that answer."""
    with published() as shop:
        workers = shop.server.workers()
        # Both have read the envelope once, which is no part of waiting.
        waiting_by_process(shop, workers)
        before, answered, last, asked, used = memory_mib(workers), [], [], [], []
        token = shop.node_token()
        with memory_of(workers) as memory, load(_nodes, shop.server.port, token) as nodes:
            during = []
            for _ in range(MOVES):
                waiting = _all_wait(shop, workers, nodes)
                during.append(memory_mib(workers))
                began = time.monotonic()
                with cores_of(shop, nodes.pid) as cores:
                    moved = shop.promote()
                    asked.append(time.monotonic() - began)
                    news = nodes.receive()
                used.append(cores)
                _check(shop, news, moved.sequence)
                answered += [at - began for at in news.arrived]
                last.append(max(news.arrived) - began)
            quiet = nodes.receive()
            shop.on.wait_for(
                lambda: not sum(waiting_by_process(shop, workers).values()), _PATIENCE_SECONDS, "nobody waits"
            )
            after = memory_mib(workers)
    return {
        "waiting": WAITING,
        "waiting_by_process": sorted(waiting.values()),
        "moves": MOVES,
        "last_has_it_seconds": statistics.median(last),
        "last_of_each_move": [round(seconds, 3) for seconds in last],
        "answers": milliseconds(answered),
        "promotion_ms": 1000 * statistics.median(asked),
        "waits_without_news": quiet,
        "errors": 0,
        "memory_mib": {"before": before, "during": during, "peak": memory.peak, "after": after},
        "cores_at_the_move": {name: statistics.median(one[name] for one in used) for name in used[0]},
    }


def waiting_by_process(shop: Published, workers: list[int]) -> dict[int, int]:
    """How many requests wait in each process; asks until each of them has answered."""
    found: dict[int, int] = {}

    def look() -> bool:
        status, _, body = Caller(shop.server.port, "").call("GET", "/metrics", Connection="close")
        if status == 200:
            found.update((int(pid), int(float(n))) for pid, n in _WAITING_GAUGE.findall(body.decode()))
        return found.keys() >= set(workers)

    shop.on.wait_for(look, _PATIENCE_SECONDS, "each process tells who waits")
    return found


@dataclass
class News:
    """What came after a move: when, and which answers how often."""

    arrived: list[float] = field(default_factory=list)
    replies: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    complete: Event = field(default_factory=Event)

    def add(self, etag: str, body: bytes) -> None:
        """Count one answer."""
        self.arrived.append(time.monotonic())
        self.replies[etag, body] += 1
        if len(self.arrived) == WAITING:
            self.complete.set()


@dataclass(frozen=True)
class Arrived:
    """``News`` as they are sent on."""

    arrived: list[float]
    replies: dict[tuple[str, bytes], int]


def _all_wait(shop: Published, workers: list[int], nodes: Load) -> dict[int, int]:
    def look() -> dict[int, int] | None:
        nodes.look()
        waiting = waiting_by_process(shop, workers)
        return waiting if sum(waiting.values()) == WAITING else None

    found: dict[int, int] = shop.on.wait_for(look, _PATIENCE_SECONDS, f"{WAITING} requests wait")
    return found


def _check(shop: Published, news: Arrived, sequence: int) -> None:
    """Every answer must be the envelope of the move; those with the same bytes are checked together."""
    for (etag, body), number in news.replies.items():
        found = accept(unpacked(body), shop.expected, Floor(sequence - 1), time.time())
        if not isinstance(found, ActiveMap) or found.sequence != sequence or not etag:
            raise RuntimeError(f"{number} nodes got something else than the move {sequence}: {found}")


def _nodes(port: int, secret: str) -> Iterator[Any]:
    """After each move what came, at last how many waits ended without news."""
    allow_files(WAITING + _OTHER_FILES)
    with Line(port, _SILENCE_SECONDS) as line:
        etag = line.ask(request_bytes("GET", PATH, secret)).etag
    moves = [News() for _ in range(MOVES)]
    nodes = [gevent.spawn(_node, port, secret, etag, number, moves) for number in range(WAITING)]
    for news in moves:
        # Also wakes up when a node has failed, which then says why.
        while not news.complete.wait(0.1):
            gevent.joinall([node for node in nodes if node.ready()], raise_error=True)
        yield Arrived(news.arrived, dict(news.replies))
    gevent.joinall(nodes, raise_error=True)
    yield sum(node.value for node in nodes)


def _node(port: int, secret: str, etag: str, number: int, moves: list[News]) -> int:
    quiet = 0
    for news in moves:
        gevent.sleep(_SPREAD_SECONDS * number / WAITING)
        wait = f"wait={LONGEST_WAIT_SECONDS}"
        while True:
            request = request_bytes("GET", PATH, secret, If_None_Match=etag, Prefer=wait)
            with Line(port, _SILENCE_SECONDS) as line:
                reply = line.ask(request)
            if reply.status == 200:
                break
            if reply.status != 304:
                raise RuntimeError(f"answered {reply.status}: {reply.body[:300]!r}")
            quiet += 1
        etag = reply.etag
        news.add(etag, reply.body)
    return quiet
