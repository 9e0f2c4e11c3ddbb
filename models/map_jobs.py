"""Jobs that a map is made of: those that a form names, and those that it may take beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, defer

from models.base import is_id
from models.jobs import Job


def jobs_with(session: Session, ids: Collection[str]) -> dict[str, Job]:
    """Jobs by id, without what may be long (see ``models.queries.list_jobs``); those that are gone are left out."""
    known = [job_id for job_id in ids if is_id(job_id)]
    return {job.id: job for job in session.scalars(_short().where(Job.id.in_(known)))} if known else {}


def list_candidates(
    session: Session,
    *,
    limit: int,
    target: str | None = None,
    draft: str | None = None,
    without_jobs: Collection[str] = (),
    without_domains: Collection[str] = (),
) -> Sequence[Job]:
    """Jobs that have succeeded, of other domains than those that are there already, newest first."""
    query = _short().where(Job.state == "succeeded").order_by(Job.id.desc()).limit(limit)
    for column, value in ((Job.target, target), (Job.draft, draft)):
        if value is not None:
            query = query.where(column == value)
    if without_jobs:
        query = query.where(Job.id.not_in(without_jobs))
    if without_domains:
        query = query.where(Job.domain.not_in(without_domains))
    return session.scalars(query).all()


def _short() -> Select[Job]:
    return select(Job).options(
        *(defer(column, raiseload=True) for column in (Job.spec, Job.facts, Job.outcome))
    )
