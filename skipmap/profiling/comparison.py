"""The comparison document ``skipmap.comparison/1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skipmap.decoding.counts import position_acceptance
from skipmap.drafts.base import DraftMethod
from skipmap.profiling.compare import Row
from skipmap.profiling.documents import COMPARISON_SCHEMA
from skipmap.profiling.job import Job, describe_data, describe_draft, describe_target
from skipmap.profiling.replay import replayable
from skipmap.profiling.result import versions
from skipmap.skipset import SkipSet

ACCEPT_LENGTH = "tokens emitted per verification step, bonus token included; plain decoding = 1"
PART = "calibration"
"""The part of the data that is compared on; held-out prompts stay unseen."""

_SHARED = ("domain", "calibration", "decoding")


def build_comparison(
    jobs: Mapping[str, Job],
    drafts: Mapping[str, DraftMethod],
    skip: SkipSet,
    rows: Mapping[str, Sequence[Row]],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The document of a comparison over one target; ``jobs`` and ``rows`` by domain, in one order.

    Rows are sorted by accept length in the first domain, in all domains alike.
    """
    first_job, first_rows = next(iter(jobs.values())), next(iter(rows.values()))
    ranked = sorted(first_rows, key=lambda row: (-row.evaluation.accept_length, row.name))
    order = [row.name for row in ranked]
    return {
        "schema": COMPARISON_SCHEMA,
        "target": describe_target(first_job),
        "skip": skip.to_list(),
        "accept_length": ACCEPT_LENGTH,
        "part": PART,
        "drafts": {name: _draft(first_job, drafts[name]) for name in order},
        "domains": {name: _domain(jobs[name], rows[name], order) for name in jobs},
        "notes": list(notes),
        "versions": versions(),
    }


def _draft(job: Job, draft: DraftMethod) -> dict[str, Any]:
    described = describe_draft(replace(job.subject, draft=draft))
    return described | {"summary": type(draft).summary, "replayable": replayable(draft)}


def _domain(job: Job, rows: Sequence[Row], order: Sequence[str]) -> dict[str, Any]:
    by_name = {row.name: row for row in rows}
    spec = job.spec.model_dump(mode="json")
    return {
        "spec": {section: spec[section] for section in _SHARED},
        "template": job.subject.template.definition(job.subject.tokenizer),
        "metric": {"name": job.subject.metric.name, "signature": job.subject.metric.signature},
        "data": describe_data(job.data),
        "rows": [_row(by_name[name]) for name in order],
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.evaluation
    acceptance = position_acceptance(found.accepted_histogram, found.proposed_histogram)
    return {
        "draft": row.name,
        **found.figures(),
        "interval": list(row.interval),
        "position_acceptance": list(acceptance),
    }
