"""The dashboard on a full service: what pages cost the server, how large they are, when a browser shows them.

10,000 jobs, one of them with 20,000 configurations, and 500 nodes; real PostgreSQL, Valkey, gunicorn with two processes
and Chromium, which all share the machine's cores. Server times are of one answer: the page's own, each of its live
parts, the data of each of its charts; "first" is of the first request for a page, of which processes may keep things.
Bytes are what goes over the wire for all that a page loads into an empty cache.

    python -m benchmarks.dashboard [--json] [--pages "jobs,job, succeeded"]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.jobs import say
from benchmarks.machine import describe_machine
from benchmarks.service.browsing import Guest, guest
from benchmarks.service.crowd import Crowd, crowd
from benchmarks.service.server import PAGES as APP
from benchmarks.service.server import ApiServer, Caller
from models.accounts import create_token
from skipmap.errors import SkipmapError
from tests.web.browser.pages import ABSENT, PAGES, RARE, address

COMMON = tuple(name for name in PAGES if name not in RARE and name not in ABSENT)
CLIENTS = 4
ALONE, TOGETHER = 40, 120
WANTED_MS, WANTED_BYTES, WANTED_PAINT_MS = 300.0, 1_000_000, 1500.0
# What is measured is the service, not its limits.
_UNLIMITED = {"SKIPMAP_READS_PER_MINUTE": "100000000", "SKIPMAP_WRITES_PER_MINUTE": "100000000"}
_LIVE = re.compile(r'data-live="([^"]+)"')
_DATA = re.compile(r'data-chart-src="([^"]+)"')


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", help="names, separated by semicolons (default: one of each kind)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.pages.split(";") if arguments.pages else list(COMMON)
    unknown = [name for name in names if name not in PAGES]
    if unknown:
        parser.error(f"--pages: no page {unknown[0]!r}; there are {'; '.join(PAGES)}")
    try:
        found = run(names)
    except SkipmapError as error:
        parser.error(str(error))
    print(json.dumps(found) if arguments.json else _table(found))
    return 0


def run(names: Sequence[str]) -> dict[str, Any]:
    """All cases."""
    with crowd() as made, ApiServer(made.on, APP, **_UNLIMITED) as server:
        token = made.on.database.transaction(create_token, made.world.user_id, "bench", ["admin"])[1]
        with guest(server.url, token) as visitor:
            cases = {name: _case(name, made, server.port, visitor) for name in names}
    slowest = max(
        times["p95_ms"]
        for case in cases.values()
        for part in case["server"].values()
        for times in part.values()
    )
    return {"ratio": WANTED_MS / slowest, "cases": cases, "machine": describe_machine()}


def _case(name: str, made: Crowd, port: int, visitor: Guest) -> dict[str, Any]:
    """Server times of the page, of its live parts and of its charts' data, and what a browser sees."""
    path = address(name, made.world)
    began = time.perf_counter()
    status, _, body = Caller(port).call("GET", path, Cookie=visitor.cookie)
    first_ms = 1000 * (time.perf_counter() - began)
    if status != 200:
        raise RuntimeError(f"{path} answered {status}: {body[:500]!r}")
    html = body.decode()
    asked = {"page": (path, "")}
    asked |= {f"part {part}": (path, part) for part in sorted(set(_LIVE.findall(html)))}
    asked |= {
        f"data {number}": (data.replace("&amp;", "&"), "")
        for number, data in enumerate(_DATA.findall(html), 1)
    }
    times = {what: _times(port, visitor.cookie, *one) for what, one in asked.items()}
    case = {"first_ms": first_ms, "server": times, "browser": visitor.visit(path)}
    say(f"{name}: {json.dumps(case)}")
    return case


def _times(port: int, cookie: str, path: str, fragment: str) -> dict[str, dict[str, float]]:
    return {
        "alone": _figures(_ask(port, cookie, path, fragment, 1, ALONE)),
        f"{CLIENTS} at once": _figures(_ask(port, cookie, path, fragment, CLIENTS, TOGETHER)),
    }


def _ask(port: int, cookie: str, path: str, fragment: str, clients: int, requests: int) -> list[float]:
    """Seconds of each request, from sending it to the whole answer."""
    local = threading.local()
    headers = {"Cookie": cookie, "Accept_Encoding": "gzip"} | ({"X_Fragment": fragment} if fragment else {})

    def one(_: int) -> float:
        if not hasattr(local, "caller"):
            local.caller = Caller(port)
        began = time.perf_counter()
        status, *_ = local.caller.call("GET", path, **headers)
        took = time.perf_counter() - began
        if status != 200:
            raise RuntimeError(f"{path} answered {status}")
        return took

    with ThreadPoolExecutor(clients) as pool:
        # Both processes have loaded what they need by then.
        list(pool.map(one, range(4 * clients)))
        return list(pool.map(one, range(requests)))


def _figures(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": 1000 * statistics.median(ordered),
        "p95_ms": 1000 * ordered[max(0, round(0.95 * len(ordered)) - 1)],
    }


def _table(found: Mapping[str, Any]) -> str:
    title = ["first", "p50", "p95", f"p50 of {CLIENTS}", f"p95 of {CLIENTS}", "kB", "paint"]
    lines = [f"{'page':32} {' '.join(f'{name:>8}' for name in title)}  drawn"]
    for name, case in found["cases"].items():
        for what, times in case["server"].items():
            is_page = what == "page"
            figures = [ms for by_load in times.values() for ms in by_load.values()]
            missed = ["slow"] if max(figures) > WANTED_MS else []
            drawn = ""
            if is_page:
                browser = case["browser"]
                figures += [browser["bytes"] / 1000, browser["first_paint_ms"]]
                missed += ["large"] if browser["bytes"] > WANTED_BYTES else []
                missed += ["late"] if browser["first_paint_ms"] > WANTED_PAINT_MS else []
                drawn = ", ".join(f"{kind} {ms:.0f}" for kind, ms in browser["drawn_ms"].items())
            label = name if is_page else f"  {what}"
            first = f"{case['first_ms']:8.0f}" if is_page else 8 * " "
            shown = " ".join([first, *(f"{value:8.0f}" for value in figures)])
            lines.append(f"{label:32} {shown}  {drawn}{' !' if missed else ''} {', '.join(missed)}".rstrip())
    wanted = f"p95 under {WANTED_MS:.0f}, {WANTED_BYTES / 1000:.0f} kB, paint under {WANTED_PAINT_MS:.0f}"
    return "\n".join([*lines, f"milliseconds; wanted: {wanted}"])


if __name__ == "__main__":
    sys.exit(main())
