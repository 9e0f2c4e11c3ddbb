"""What processes use while something is measured: memory and cores, those of programs that are not measured as well."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.service.published import Published

_EVERY_SECONDS = 0.5
_MIB = 1 << 20


def memory_mib(pids: Sequence[int]) -> float:
    """Resident memory of processes together."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids) / _MIB


@dataclass
class Memory:
    """Resident memory of processes, MiB, with the ``time.monotonic()`` of each look."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    @property
    def peak(self) -> float:
        """The most there was at a time."""
        return max(mib for _, mib in self.samples)

    def mean(self, begin: float, end: float) -> float:
        """Of the looks between two times."""
        found = [mib for at, mib in self.samples if begin <= at < end]
        return sum(found) / len(found)


@contextmanager
def memory_of(pids: Sequence[int]) -> Iterator[Memory]:
    """Look at the memory of processes twice a second while the block runs."""
    found, ended = Memory(), threading.Event()

    def look() -> None:
        while True:
            found.samples.append((time.monotonic(), memory_mib(pids)))
            if ended.wait(_EVERY_SECONDS):
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


@contextmanager
def cores_of(shop: Published, load_pid: int) -> Iterator[dict[str, float]]:
    """Cores that were busy on average while the block ran; ``others``: with what is not measured."""
    assert shop.on.postgres.pid is not None
    assert shop.on.valkey.pid is not None
    roots = {
        "api": shop.server.pid,
        "load": load_pid,
        "postgres": shop.on.postgres.pid,
        "valkey": shop.on.valkey.pid,
    }
    found: dict[str, float] = {}
    before, began = _seconds(roots), time.monotonic()
    yield found
    took = time.monotonic() - began
    for name, seconds in _seconds(roots).items():
        found[name] = (seconds - before[name]) / took
    found["others"] = max(0.0, found.pop("all") - sum(found.values()))


def _seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds of process trees so far, of this process, and of all there is."""
    found = {name: _tree_seconds(pid) for name, pid in roots.items()}
    own = psutil.Process(os.getpid()).cpu_times()
    found["benchmark"] = own.user + own.system
    times: Any = psutil.cpu_times()
    # Guests' time is in that of users already.
    found["all"] = sum(getattr(times, kind) for kind in ("user", "nice", "system", "irq", "softirq", "steal"))
    return found


def _tree_seconds(pid: int) -> float:
    total = 0.0
    top = psutil.Process(pid)
    for process in (top, *top.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            # Those of children that have ended are their parent's.
            total += times.user + times.system + times.children_user + times.children_system
    return total
