"""Jobs over the demo model and the shipped samples, as the benchmarks run them."""

from __future__ import annotations

import sys
from typing import Any

from skipmap.profiling.check import check_job
from skipmap.profiling.job import Job, open_job
from skipmap.spec import JobSpec

TARGET = "smollm2-135m-instruct"


def open_sample(domain: str, draft: str, params: dict[str, Any] | None = None) -> Job:
    """A job with default options over the sample of a domain."""
    spec = {
        "target": {"id": TARGET},
        "draft": {"method": draft, "params": params or {}},
        "domain": {"name": domain},
        "calibration": {"source": f"sample:{domain}"},
    }
    return open_job(check_job(JobSpec.parse(spec)))


def say(text: str) -> None:
    """Progress goes to stderr."""
    print(text, file=sys.stderr, flush=True)
