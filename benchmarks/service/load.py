"""The API under load: many jobs and evaluations stored, real gunicorn, requests over real connections."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.service.server import ApiServer, Caller
from benchmarks.service.stage import Stage, stage
from models.accounts import create_token, create_user
from models.settings import ServiceSettings

JOBS = 10_000
EVALUATIONS = 1_000_000
CLIENTS = 8
REQUESTS = 400

# What is measured is the service, not its limits.
_UNLIMITED = {"SKIPMAP_READS_PER_MINUTE": "100000000", "SKIPMAP_WRITES_PER_MINUTE": "100000000"}

# Every hundredth job has a hundred times as many evaluations as the others together have on average.
_FILL = (
    """
    INSERT INTO jobs (id, state, spec, spec_digest, labels, target, draft, domain, priority, outcome, facts,
        content_key, device_class, engine, last_event, finished_at, created_at)
    SELECT fill_id(n), 'succeeded', CAST(:spec AS json), md5(n::text), jsonb_build_object('team', 't' || n % 10),
        'tiny', 'prompt_lookup', (ARRAY['qa', 'mmlu', 'math'])[n % 3 + 1], 5, '{}', NULL, NULL, 'cpu', 'fake', 12,
        clock_timestamp(), clock_timestamp() - make_interval(secs => :jobs - n)
    FROM generate_series(1, :jobs) AS n
    """,
    """
    INSERT INTO levels (id, job_id, idx, kind, depth, state, size, done, feasible, finished_at)
    SELECT fill_id(:jobs + n * 4 + k), fill_id(n), k, (ARRAY['dense', 'single', 'level', 'result'])[k + 1],
        CASE WHEN k < 3 THEN k END, 'done', 10, 10, 1, clock_timestamp()
    FROM generate_series(1, :jobs) AS n, generate_series(0, 3) AS k
    """,
    """
    INSERT INTO evaluations (job_id, skip_key, skip, depth, accept_length, accepted_drafts, steps, metric, evaluator,
        batch_split, seconds, figures, prompts)
    SELECT fill_id(n), k::text, ARRAY[k]::smallint[], 1, 1 + random(), random(), 100, random(), 'replay', false, 1,
        '{"tree_size": 5, "accepted_histogram": [1], "proposed_histogram": [1], "idle_prompts": 0}', '[]'
    FROM generate_series(1, :jobs) AS n, generate_series(1, CASE WHEN n % 100 = 0 THEN :many ELSE :few END) AS k
    """,
)


def api_load() -> dict[str, Any]:
    """Milliseconds (p50, p99) of each call and answers a second of unchanged polls."""
    with stage() as on:
        _fill(on)
        user = on.database.transaction(create_user, "bench")
        _, secret = on.database.transaction(create_token, user.id, "bench", ["admin"])
        with ApiServer(on, **_UNLIMITED) as server:
            return _measure(
                server.port, secret, on.sql("SELECT id FROM jobs WHERE id = fill_id(:n)", n=JOBS)[0]
            )


def _fill(on: Stage) -> None:
    spec = on.spec().model_dump_json()
    few, many = 50, 50 + 50 * (EVALUATIONS // JOBS)
    values = {"jobs": JOBS, "spec": spec, "few": few, "many": many}

    def fill(session: Session) -> None:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        session.execute(
            text(
                "CREATE FUNCTION fill_id(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS "
                "$$ SELECT '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') $$"
            )
        )
        for statement in _FILL:
            session.execute(text(statement), values)

    slow = ServiceSettings(database_url=on.settings.database_url, idle_timeout_seconds=600, retry_seconds=0)
    database = type(on.database)(slow)
    database.transaction(fill)
    database.close()
    for table in ("jobs", "levels", "evaluations"):
        on.sql(f"ANALYZE {table}")


def _measure(port: int, secret: str, job_id: str) -> dict[str, Any]:
    first = Caller(port, secret)
    status, headers, body = first.call("GET", f"/api/v1/jobs/{job_id}")
    assert status == 200, body
    etag = headers["etag"]
    cursor = json.loads(first.call("GET", "/api/v1/jobs?limit=50")[2])["next_cursor"]
    spec = {
        "target": {"id": "smollm2-135m-instruct"},
        "draft": {"method": "prompt_lookup"},
        "domain": {"name": "qa"},
        "calibration": {"source": "sample:qa"},
    }
    calls: dict[str, tuple[int, Callable[[Caller, int], int]]] = {
        "submit": (202, lambda c, n: c.call("POST", "/api/v1/jobs", json.dumps(spec))[0]),
        "poll (200)": (200, lambda c, n: c.call("GET", f"/api/v1/jobs/{job_id}")[0]),
        "poll (304)": (
            304,
            lambda c, n: c.call("GET", f"/api/v1/jobs/{job_id}", If_None_Match=etag)[0],
        ),
        "list": (200, lambda c, n: c.call("GET", "/api/v1/jobs?limit=50")[0]),
        "list, later page": (200, lambda c, n: c.call("GET", f"/api/v1/jobs?limit=50&cursor={cursor}")[0]),
        "list, filtered": (
            200,
            lambda c, n: c.call("GET", "/api/v1/jobs?state=succeeded&domain=qa&label=team:t3&limit=50")[0],
        ),
        "evaluations by metric": (
            200,
            lambda c, n: c.call("GET", f"/api/v1/jobs/{job_id}/evaluations?sort=metric&order=desc&limit=50")[
                0
            ],
        ),
        "metrics": (200, lambda c, n: c.call("GET", "/metrics")[0]),
    }
    found: dict[str, Any] = {}
    for name, (expected, call) in calls.items():
        alone = _times(port, secret, 1, 100, expected, call)
        busy = _times(port, secret, CLIENTS, REQUESTS, expected, call)
        found[name] = {"alone": _quantiles(alone[0]), f"{CLIENTS} at once": _quantiles(busy[0])}
        found[name]["per_second"] = len(busy[0]) / busy[1]
    found["unchanged polls a second"] = _poll_rate(port, secret, job_id, etag)
    return found


def _times(
    port: int, secret: str, clients: int, requests: int, expected: int, call: Callable[[Caller, int], int]
) -> tuple[list[float], float]:
    """Seconds of each request, and of all of them together."""
    local = threading.local()

    def one(number: int) -> float:
        if not hasattr(local, "caller"):
            local.caller = Caller(port, secret)
        began = time.perf_counter()
        status = call(local.caller, number)
        took = time.perf_counter() - began
        if status != expected:
            raise RuntimeError(f"answered {status}, not {expected}")
        return took

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))
        began = time.perf_counter()
        return list(pool.map(one, range(requests))), time.perf_counter() - began


def _quantiles(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": 1000 * statistics.median(ordered),
        "p99_ms": 1000 * ordered[max(0, round(0.99 * len(ordered)) - 1)],
    }


_POLL = """
import asyncio, sys, time
host, port, path, secret, etag, clients, seconds = sys.argv[1:]
request = (f"GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nAuthorization: Bearer {secret}\\r\\n"
           f"If-None-Match: {etag}\\r\\n\\r\\n").encode()
done = 0
async def poll(end):
    global done
    reader, writer = await asyncio.open_connection(host, int(port))
    while time.monotonic() < end:
        writer.write(request)
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        assert b" 304 " in head.split(b"\\r\\n")[0], head
        done += 1
    writer.close()
async def main():
    end = time.monotonic() + float(seconds)
    await asyncio.gather(*(poll(end) for _ in range(int(clients))))
asyncio.run(main())
print(done / float(seconds))
"""


def _poll_rate(port: int, secret: str, job_id: str, etag: str) -> float:
    """Answers a second to pollers in a process of their own, which shares the cores with the service."""
    arguments = ["127.0.0.1", str(port), f"/api/v1/jobs/{job_id}", secret, etag, "16", "5"]
    out = subprocess.run(
        [sys.executable, "-c", _POLL, *arguments], capture_output=True, text=True, check=True
    )
    return float(out.stdout)
