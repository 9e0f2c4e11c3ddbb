"""Tells a container engine whether a process is well: ``python -m deploy.docker.health api|worker|reconciler``.

The API is asked over HTTP. Workers and the reconciler touch a file ``$SKIPMAP_HOME/run/*.alive`` as they go, so one
that hangs is found out as well. A probe runs every few seconds: only the standard library is imported.
"""

from __future__ import annotations

import http.client
import os
import sys
import time
from pathlib import Path

ALIVE_SECONDS = 120.0
_ANSWER_SECONDS = 4.0
_USAGE_CODE = 2


def alive(home: Path, within_seconds: float = ALIVE_SECONDS) -> str | None:
    """What is wrong with the process that keeps its files under this home, or None."""
    folder = home / "run"
    ages = [time.time() - path.stat().st_mtime for path in folder.glob("*.alive")]
    if not ages:
        return f"no file *.alive in {folder}: the process has not come up"
    if min(ages) > within_seconds:
        return f"no sign of life for {min(ages):.0f} s; at most {within_seconds:.0f} s are allowed"
    return None


def answers(port: int) -> str | None:
    """What is wrong with the API on this port of the machine itself, or None."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"no answer on port {port}: {error}"
    finally:
        connection.close()
    return None if status == http.client.OK else f"/healthz on port {port} answers {status}"


def main(arguments: list[str]) -> int:
    """Print what is wrong, if anything; returns an exit code."""
    match arguments:
        case ["api"]:
            problem = answers(int(os.environ.get("SKIPMAP_PORT", "8765")))
        case ["worker" | "reconciler"]:
            problem = alive(Path(os.environ.get("SKIPMAP_HOME", "~/.skipmap")).expanduser())
        case _:
            print(f"one of api, worker, reconciler is needed; given: {' '.join(arguments)}", file=sys.stderr)
            return _USAGE_CODE
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
