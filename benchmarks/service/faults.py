"""How long a fault lasts: from the fault to the next evaluation, or to the state that was asked for."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.service.stage import LAYERS, Stage, since, stage
from models.control import cancel

# A tenth of production's, so that waiting for a lease does not take minutes; times below that depend on it say so.
QUICK = {"lease_seconds": 6.0, "heartbeat_seconds": 1.5, "stall_seconds": 4.0, "backoff_seconds": 0.5}
ANSWERS = {"layers": LAYERS, "answers": "good", "seconds_per_unit": 0.2}
REPEATS = 5


def cancel_latency() -> dict[str, Any]:
    """Seconds from the request to the state ``cancelled`` while a worker evaluates, with production's settings."""
    found = []
    with stage() as on:
        on.start_worker("bench-0", **(ANSWERS | {"seconds_per_unit": 5.0}))
        on.start_reconciler()
        for _ in range(REPEATS):
            job_id = on.submit(on.spec())
            _wait_running(on, job_id)
            began = time.monotonic()
            on.database.transaction(cancel, job_id)
            on.wait_for(lambda job_id=job_id: on.state(job_id) == "cancelled", 30, "the job is cancelled")
            found.append(since(began))
    return {"median_seconds": statistics.median(found), "longest_seconds": max(found)}


def recoveries() -> dict[str, float]:
    """Seconds from each kind of fault to the next begun evaluation."""
    cases: dict[str, Callable[[Stage], float]] = {
        "worker killed, restarted": _worker_restarted,
        "worker killed, not restarted (lease 6 s)": _worker_gone,
        "child killed": _child_killed,
        "worker drained (SIGTERM to exit)": _drained,
        "broker flushed": _flushed,
        "broker killed, back after 1 s": _broker_restarted,
        "database stopped at once and restarted": _database_restarted,
        "evaluation hangs (stall limit 4 s)": _hang,
    }
    return {name: _on_stage(case) for name, case in cases.items()}


def _on_stage(case: Callable[[Stage], float]) -> float:
    with stage(**QUICK) as on:
        return case(on)


def _begin(on: Stage, workers: int = 1, **plan: Any) -> str:
    for number in range(workers):
        on.start_worker(f"bench-{number}", **(ANSWERS | plan))
    on.start_reconciler()
    job_id = on.submit(on.spec())
    on.wait_for(lambda: len(on.log()) >= 6, 60, "evaluations go on")
    return job_id


def _next_begin(on: Stage, after: float, of: str | None = None) -> float:
    """Seconds from a ``time.time()`` until an evaluation began after it."""

    def look() -> float | None:
        times = [e["at"] for e in on.log() if e["what"] == "begin" and of in (None, e["worker"])]
        return next((at for at in times if at > after), None)

    found: float = on.wait_for(look, 120, "evaluations go on again")
    return found - after


def _wait_running(on: Stage, job_id: str) -> None:
    running = "SELECT 1 FROM chunks WHERE job_id = :id AND state = 'running'"
    on.wait_for(lambda: on.sql(running, id=job_id), 60, "a chunk runs")
    on.wait_for(lambda: [e for e in on.log() if e["job"] == job_id], 60, "its evaluation has begun")


def _worker_restarted(on: Stage) -> float:
    _begin(on)
    fault = time.time()
    on.kill("bench-0")
    on.start_worker("bench-0", **ANSWERS)
    return _next_begin(on, fault)


def _worker_gone(on: Stage) -> float:
    """The other worker takes over the very chunk that the killed one had."""
    _begin(on, workers=2)
    held = "SELECT id FROM chunks WHERE owner = 'bench-0'"
    chunk = on.wait_for(lambda: on.sql(held), 30, "the worker has a chunk")[0]
    fault = time.time()
    on.kill("bench-0")
    taken = "SELECT extract(epoch FROM started_at)::float8 FROM attempts WHERE chunk_id = :id AND attempt > 1"
    again = on.wait_for(lambda: on.sql(taken, id=chunk), 60, "another worker has done the chunk")[0]
    return float(again) - fault


def _child_killed(on: Stage) -> float:
    _begin(on)
    child = on.child_of("bench-0")
    fault = time.time()
    os.kill(child, signal.SIGKILL)
    return _next_begin(on, fault)


def _drained(on: Stage) -> float:
    _begin(on)
    began = time.monotonic()
    on.kill("bench-0", signal.SIGTERM)
    on.processes["bench-0"].wait()
    return since(began)


def _flushed(on: Stage) -> float:
    """The queue is lost while no worker listens; then one comes."""
    _begin(on)
    on.kill("bench-0")
    redis.Redis.from_url(on.valkey.client_url).flushall()
    on.start_worker("bench-1", **ANSWERS)
    there = on.wait_for(
        lambda: on.sql("SELECT extract(epoch FROM started_at)::float8 FROM workers WHERE owner = 'bench-1'"),
        60,
        "the second worker is there",
    )[0]
    return _next_begin(on, float(there), "bench-1")


def _broker_restarted(on: Stage) -> float:
    """Jobs are submitted while the broker is away and nothing runs; seconds from its return."""
    on.start_worker("bench-0", **ANSWERS)
    on.start_reconciler()
    on.wait_for(lambda: on.sql("SELECT 1 FROM workers"), 60, "the worker is there")
    on.valkey.stop()
    on.submit(on.spec())
    time.sleep(1)
    on.valkey.start()
    return _next_begin(on, time.time())


def _database_restarted(on: Stage) -> float:
    _begin(on)
    assert on.postgres.pid is not None
    fault = time.time()
    os.kill(on.postgres.pid, signal.SIGQUIT)
    on.wait_for(lambda: not on.postgres.is_running, 30, "the database has ended")
    on.postgres.start()
    return _next_begin(on, fault)


def _hang(on: Stage) -> float:
    on.start_worker("bench-0", **(ANSWERS | {"on": {"3": "once:hang"}}))
    on.start_reconciler()
    on.submit(on.spec())
    hung = on.wait_for(
        lambda: [e["at"] for e in on.log() if e["what"] == "begin" and "3" in e["keys"]], 60, "it hangs"
    )[0]
    return _next_begin(on, float(hung) + 0.5) + 0.5
