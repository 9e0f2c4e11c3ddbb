"""How many answers a second nodes get that fetch a channel one after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import gevent

from benchmarks.service.figures import milliseconds
from benchmarks.service.published import PATH, Published, published
from benchmarks.service.watch import cores_of
from benchmarks.service.wire import Line, load, request_bytes, unpacked
from skipmap.serving.acceptance import Floor, Refusal, accept

CLIENTS = 16
ROUNDS = 5
SECONDS = 6.0
_WARM_SECONDS = 2.0
_SILENCE_SECONDS = 10.0


def fetches() -> dict[str, Any]:
    """Answers a second and milliseconds of 304 and of 200, on connections that stay and on one a request."""
    with published() as shop:
        first = _first(shop)
        found: dict[str, Any] = {"clients": CLIENTS, "envelope_bytes": len(first[1]), "sent_bytes": first[2]}
        for name, (status, keep) in {
            "304": (304, True),
            "200": (200, True),
            "304, a connection each": (304, False),
            "200, a connection each": (200, False),
        }.items():
            known = {"If_None_Match": first[0]} if status == 304 else {}
            # A token a round: each may ask so often a minute, and this is more than a fleet does.
            tokens = [shop.node_token() for _ in range(1 + ROUNDS)]
            requests = [request_bytes("GET", PATH, token, keep=keep, **known) for token in tokens]
            found[name] = _measure(shop, requests, status, keep)
    return found


def _first(shop: Published) -> tuple[str, bytes, int]:
    """ETag, envelope and size as it is sent, after a node's own checks."""
    with load(_one, shop.server.port, request_bytes("GET", PATH, shop.node_token())) as one:
        etag, body = one.receive()
    envelope = unpacked(body)
    checked = accept(envelope, shop.expected, Floor(), time.time())
    if isinstance(checked, Refusal):
        raise RuntimeError(f"the envelope was refused: {checked.reason}")
    return etag, envelope, len(body)


def _measure(shop: Published, requests: list[bytes], status: int, keep: bool) -> dict[str, Any]:
    rounds, used = [], []
    with load(_rounds, shop.server.port, requests, status, keep) as running:
        running.receive()
        for _ in range(ROUNDS):
            with cores_of(shop, running.pid) as cores:
                rounds.append(running.receive())
            used.append(cores)
    return {
        "per_second": statistics.median(len(times) / SECONDS for times in rounds),
        "per_second_of_rounds": [round(len(times) / SECONDS) for times in rounds],
        **milliseconds([time for times in rounds for time in times]),
        "cores": {name: statistics.median(one[name] for one in used) for name in used[0]},
    }


def _one(port: int, request: bytes) -> Iterator[tuple[str, bytes]]:
    with Line(port, _SILENCE_SECONDS) as line:
        reply = line.ask(request)
    yield reply.etag, reply.body


def _rounds(port: int, requests: list[bytes], status: int, keep: bool) -> Iterator[list[float]]:
    """Seconds of every answer in each round; the first round only warms up."""
    for request, seconds in zip(requests, (_WARM_SECONDS, *(SECONDS,) * ROUNDS), strict=True):
        times: list[float] = []
        end = time.perf_counter() + seconds
        clients = [gevent.spawn(_client, port, request, status, keep, end, times) for _ in range(CLIENTS)]
        gevent.joinall(clients, raise_error=True)
        yield times


def _client(port: int, request: bytes, status: int, keep: bool, end: float, times: list[float]) -> None:
    while time.perf_counter() < end:
        began = time.perf_counter()
        with Line(port, _SILENCE_SECONDS) as line:
            while True:
                reply = line.ask(request)
                ended = time.perf_counter()
                if reply.status != status:
                    raise RuntimeError(f"answered {reply.status}, not {status}: {reply.body[:300]!r}")
                if ended <= end:
                    times.append(ended - began)
                if not keep or reply.ends or ended >= end:
                    break
                began = ended
