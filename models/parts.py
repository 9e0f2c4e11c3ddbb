"""Everything that a job has stored, for the kinds of work that need all of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.evaluations import evaluations_of
from models.findings import Finding, finding, findings_of
from models.jobs import Job
from models.stored import evaluation_seconds


def parts_of(session: Session, job_id: str) -> dict[str, Any]:
    """Rows by skip set, evaluation seconds, cost payload, held-out payloads by run, and seconds of the later steps."""
    later = session.execute(
        select(Finding.kind, func.sum(Finding.seconds))
        .where(Finding.job_id == job_id, Finding.kind != "result")
        .group_by(Finding.kind)
    )
    age = session.scalar(
        select(func.extract("epoch", func.clock_timestamp() - Job.created_at)).where(Job.id == job_id)
    )
    return {
        "rows": evaluations_of(session, job_id),
        "seconds": evaluation_seconds(session, job_id),
        "cost": finding(session, job_id, "cost"),
        "held_out": findings_of(session, job_id, "held_out"),
        "timings": {f"{kind}_seconds": float(seconds) for kind, seconds in later}
        | {"wall_seconds": float(age or 0.0)},
    }
