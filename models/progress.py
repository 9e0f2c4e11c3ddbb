"""Progress of running levels, counted once a sweep, so that watchers read one row and not a million."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from models.chunks import skip_key
from models.evaluations import EvaluationRow
from models.events import emit
from models.findings import Finding
from models.jobs import Job
from models.levels import SEARCH_KINDS, Level
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, floors

_SLACK = 1e-12


def units_stored(session: Session, level: Level) -> int:
    """Units of a level that are stored."""
    if level.kind in SEARCH_KINDS:
        rows = select(func.count()).where(
            EvaluationRow.job_id == level.job_id, EvaluationRow.depth == level.depth
        )
    else:
        rows = select(func.count()).where(Finding.job_id == level.job_id, Finding.kind == level.kind)
    return session.scalar(rows) or 0


def refresh_progress(session: Session) -> int:
    """Note what running levels have stored since the last time; returns how many jobs have moved on."""
    levels = session.scalars(select(Level).where(Level.state == "running").order_by(Level.job_id)).all()
    return sum(_refresh(session, level) for level in levels)


def note_progress(session: Session, level: Level, **more: Any) -> bool:
    """Write what a running level has stored into its row, with other columns, and the job's best so far.

    Returns False when the level has ended.
    """
    values: dict[str, Any] = {"done": units_stored(session, level), "pace": _pace(session, level), **more}
    best = None
    if level.kind in SEARCH_KINDS and level.depth:
        admitted = _admitted(session, session.get_one(Job, level.job_id))
        values["feasible"] = session.scalar(
            select(func.count()).where(*admitted, EvaluationRow.depth == level.depth)
        )
        best = _best(session, admitted)
    moved = session.execute(
        update(Level).where(Level.id == level.id, Level.state == "running").values(values).returning(Level.id)
    ).first()
    if moved is not None and best is not None:
        session.execute(update(Job).where(Job.id == level.job_id).values(best=best))
    return moved is not None


def _refresh(session: Session, level: Level) -> bool:
    done, size = units_stored(session, level), level.size
    if done == level.done or not note_progress(session, level):
        return False
    emit(session, level.job_id, "progress", idx=level.idx, kind=level.kind, done=done, size=size)
    return True


def _pace(session: Session, level: Level) -> dict[str, Any] | None:
    seconds = Finding.seconds if level.kind not in SEARCH_KINDS else EvaluationRow.seconds
    quantiles = [func.percentile_cont(part).within_group(seconds) for part in (0.5, 0.8)]
    if level.kind in SEARCH_KINDS:
        query = select(*quantiles).where(
            EvaluationRow.job_id == level.job_id,
            EvaluationRow.depth == level.depth,
            EvaluationRow.cached.is_(False),
        )
    else:
        query = select(*quantiles).where(Finding.job_id == level.job_id, Finding.kind == level.kind)
    median, p80 = session.execute(query).one()
    return None if median is None else {"median": median, "p80": p80}


def _admitted(session: Session, job: Job) -> list[Any]:
    """Conditions for rows of feasible configurations."""
    search = job.parsed_spec.search
    accept = (
        EvaluationRow.accept_length
        if search.accept_measure == "tokens_per_step"
        else EvaluationRow.accepted_drafts
    )
    a, m = session.execute(
        select(accept, EvaluationRow.metric).where(
            EvaluationRow.job_id == job.id, EvaluationRow.skip_key == skip_key(DENSE)
        )
    ).one()
    limits = floors(Score(a, m), search.eps, search.tau)
    return [
        EvaluationRow.job_id == job.id,
        EvaluationRow.depth > 0,
        accept >= limits.accept - _SLACK,
        EvaluationRow.metric >= limits.metric - _SLACK,
    ]


def _best(session: Session, admitted: list[Any]) -> dict[str, Any] | None:
    """The feasible configuration that skips most, then the one with the largest metric and accept length."""
    row = session.scalars(
        select(EvaluationRow)
        .where(*admitted)
        .order_by(
            EvaluationRow.depth.desc(),
            EvaluationRow.metric.desc(),
            EvaluationRow.accept_length.desc(),
            EvaluationRow.skip,
        )
        .limit(1)
    ).first()
    if row is None:
        return None
    return {"skip": row.skip, "accept_length": row.accept_length, "metric": row.metric}
