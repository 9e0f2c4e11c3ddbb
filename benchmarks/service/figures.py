"""Figures of many measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 99 % and longest of times."""
    ordered = sorted(seconds)
    return {
        "p50_ms": 1000 * statistics.median(ordered),
        "p99_ms": 1000 * ordered[max(0, round(0.99 * len(ordered)) - 1)],
        "max_ms": 1000 * ordered[-1],
    }
