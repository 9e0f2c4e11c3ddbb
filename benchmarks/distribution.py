"""Handing out maps to nodes: fetches a second, long polls at a promotion, and a fleet that polls for a minute.

Real PostgreSQL, Valkey and gunicorn with the API's settings and limits as in production, on two cores, which the load
takes its share of; the map is published from jobs with made-up results.

    python -m benchmarks.distribution [--json] [--parts fetches,long_polls,fleet]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.jobs import say
from benchmarks.machine import describe_machine
from benchmarks.service.fetches import fetches
from benchmarks.service.fleet import fleet
from benchmarks.service.long_polls import long_polls

CORES = 2
WANTED_PER_SECOND = 800
PARTS: dict[str, Callable[[], Any]] = {"fetches": fetches, "long_polls": long_polls, "fleet": fleet}


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
    machine = describe_machine() | {"cores_used": _keep_to(CORES), "load_before": os.getloadavg()[0]}
    machine["note"] = "the load comes from the same cores as the answers"
    cases = {}
    for name in names:
        cases[name] = PARTS[name]()
        say(f"{name}: {json.dumps(cases[name])}")
    found: dict[str, Any] = {"cases": cases, "machine": machine}
    if "fetches" in cases:
        found["ratio"] = cases["fetches"]["304"]["per_second"] / WANTED_PER_SECOND
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=2))
    return 0


def _keep_to(cores: int) -> int:
    """Keep this process and those that it starts to so many cores, where the system can; returns how many they are."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    os.sched_setaffinity(0, chosen)
    return len(chosen)


if __name__ == "__main__":
    sys.exit(main())
