"""Jobs that are looked at side by side."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.jobs import Job


def jobs_by_id(session: Session, job_ids: Sequence[str]) -> dict[str, Job]:
    """Several jobs in one statement, by their ids; those that do not exist are left out."""
    return {job.id: job for job in session.scalars(select(Job).where(Job.id.in_(job_ids)))}
