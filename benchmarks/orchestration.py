"""The service around the evaluations: what a chunk costs, chunks a second, cancelling, recovering, the API under load.

Real PostgreSQL, Valkey, Celery workers and gunicorn; evaluations are the tests' fake ones, which take as long as asked.

    python -m benchmarks.orchestration [--json] [--parts overhead,long,throughput,cancel,recovery,api]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.jobs import say
from benchmarks.machine import describe_machine
from benchmarks.service.chunks import long_chunks, overhead, throughput
from benchmarks.service.faults import cancel_latency, recoveries
from benchmarks.service.load import api_load

WORKERS = (1, 2, 4, 8)
PARTS: dict[str, Callable[[], Any]] = {
    "overhead": overhead,
    "long": long_chunks,
    "throughput": lambda: [throughput(workers) for workers in WORKERS],
    "cancel": cancel_latency,
    "recovery": recoveries,
    "api": api_load,
}


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.parts.split(",")
    unknown = sorted(set(names) - PARTS.keys())
    if unknown:
        parser.error(f"--parts: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    cases = {}
    for name in names:
        cases[name] = PARTS[name]()
        say(f"{name}: {json.dumps(cases[name])}")
    found: dict[str, Any] = {"cases": cases, "machine": describe_machine()}
    if "throughput" in cases:
        rates = [case["chunks_per_second"] for case in cases["throughput"]]
        found["ratio"] = max(rates) / rates[0]
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
