"""Run every benchmark in turn: ``python -m benchmarks``."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "profiling",
    "live",
    "strategies",
    "decoding",
    "controller",
    "serving",
    "orchestration",
    "distribution",
    "dashboard",
)


def main() -> int:
    """Run each in its own process, so that none inherits another's memory."""
    codes = [
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode for name in NAMES
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
