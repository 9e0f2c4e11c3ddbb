"""What a chunk costs beside its evaluation, and how many chunks a second a number of workers gets through."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import Any

from benchmarks.service.stage import LAYERS, Stage, stage

LONG_SECONDS = 30.0
ANSWERS = {"layers": LAYERS, "answers": "good"}


def overhead() -> dict[str, Any]:
    """Milliseconds a chunk outside evaluation, with one worker: between the starts of neighbours, less evaluation."""
    with stage(chunk_seconds=1e-6) as on:
        on.start_worker("bench-0", seconds_per_unit=0.05, **ANSWERS)
        on.start_reconciler()
        on.see_through(on.submit(on.spec()))
        outside = _outside(on)
    median = statistics.median(outside)
    return {
        "chunks": len(outside),
        "median_ms": 1000 * median,
        "p95_ms": 1000 * statistics.quantiles(outside, n=20)[-1],
        "share_of_30_s": median / (LONG_SECONDS + median),
    }


def long_chunks() -> dict[str, Any]:
    """The share of time outside evaluation in chunks that really take half a minute."""
    with stage(chunk_seconds=1e-6) as on:
        on.start_worker("bench-0", seconds_per_unit=LONG_SECONDS, layers=2, answers="good")
        on.start_reconciler()
        on.see_through(on.submit(on.spec(max_depth=1)))
        rows = _rows(on)
        outside = _outside(on)
    spent = statistics.fmean(seconds for *_, seconds in rows)
    return {"chunks": len(outside), "mean_seconds": spent, "share_outside": max(outside) / spent}


def throughput(workers: int) -> dict[str, Any]:
    """Chunks a second of evaluations that take no time."""
    with stage(chunk_seconds=1e-6) as on:
        for number in range(workers):
            on.start_worker(f"bench-{number}", seconds_per_unit=0.0, **ANSWERS)
        on.start_reconciler()
        on.wait_for(lambda: on.sql("SELECT count(*) FROM workers") == [workers], 60, "all workers are there")
        on.see_through(on.submit(on.spec()))
        rows = _rows(on)
    took = max(ended for _, _, ended, _ in rows) - min(started for _, started, _, _ in rows)
    return {"workers": workers, "chunks": len(rows), "chunks_per_second": len(rows) / took}


def _rows(on: Stage) -> list[Any]:
    return on.sql(
        "SELECT a.owner, extract(epoch FROM a.started_at)::float8, extract(epoch FROM a.ended_at)::float8, c.seconds "
        "FROM attempts AS a JOIN chunks AS c ON c.id = a.chunk_id ORDER BY a.owner, a.started_at"
    )


def _outside(on: Stage) -> list[float]:
    """Of all chunks but the last: what passed until the next one's start, less its evaluation."""
    return [
        later[1] - earlier[1] - earlier[3] for earlier, later in pairwise(_rows(on)) if earlier[0] == later[0]
    ]
