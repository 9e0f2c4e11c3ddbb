"""Uses of calibration sets: which jobs hold on to them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, load_only

from models.jobs import Job


def uses_of(session: Session, set_ids: Sequence[str]) -> dict[str, int]:
    """How many jobs use each of several sets; unused ones are left out."""
    rows = session.execute(
        select(Job.calibration_set_id, func.count().label("number"))
        .where(Job.calibration_set_id.in_(set_ids))
        .group_by(Job.calibration_set_id)
    )
    return {str(row.calibration_set_id): row.number for row in rows}


def jobs_with(session: Session, set_id: str, *, limit: int) -> Sequence[Job]:
    """Jobs that use a set, newest first; of each what a line about it says, and no more."""
    columns = (Job.id, Job.name, Job.state, Job.target, Job.draft, Job.domain)
    shown = load_only(*columns, raiseload=True)
    query = select(Job).options(shown).where(Job.calibration_set_id == set_id)
    return session.scalars(query.order_by(Job.id.desc()).limit(limit)).all()
