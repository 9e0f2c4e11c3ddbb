"""Jobs over the demo model and the shipped samples, as the benchmarks run them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from skipmap.cli.variants import read_variants
from skipmap.drafts.base import DraftMethod, Resources
from skipmap.drafts.registry import make_draft
from skipmap.profiling.check import check_job
from skipmap.profiling.job import Job, open_job
from skipmap.profiling.subject import Subject
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


def make_drafts(
    subject: Subject,
    drafts: str | None,
    draft_params: Sequence[str],
    defaults: Mapping[str, Mapping[str, Any]],
) -> dict[str, DraftMethod]:
    """Drafts by name, as `skipmap compare` reads them; ``defaults``: parameters of a method that is given none."""
    resources = Resources(None, subject.target.num_layers, subject.target, subject.tokenizer)
    variants, notes = read_variants(drafts, draft_params)
    for note in notes:
        say(note)
    return {
        variant.name: make_draft(
            variant.method, {**defaults.get(variant.name, {}), **variant.params}, resources
        )
        for variant in variants
    }


def say(text: str) -> None:
    """Progress goes to stderr."""
    print(text, file=sys.stderr, flush=True)
