"""Opening a level: its row, its chunks, and what the cache already holds of it, in the caller's transaction."""

from __future__ import annotations

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from models.base import new_id
from models.cache import take_cached
from models.chunks import Chunk, chunk_groups, skip_key
from models.evaluations import EvaluationRow
from models.events import emit
from models.expand import NextLevel
from models.jobs import Job
from models.levels import EVALUATED_KINDS, SEARCH_KINDS, Level
from models.ranks import RankRow
from models.workers import fitting_workers
from skipmap.profiling.search import DENSE


def open_level(
    session: Session, job: Job, idx: int, step: NextLevel, chunk_seconds: float
) -> tuple[Level, bool]:
    """Insert a running level with all its chunks; the flag tells whether there are any.

    Groups that the cache holds whole are stored at once and not enqueued. The job's row is locked by the caller.
    """
    level = Level(
        id=new_id(),
        job_id=job.id,
        idx=idx,
        kind=step.kind,
        depth=step.depth,
        state="running",
        size=step.size,
        plan=dict(step.plan) or None,
    )
    session.add(level)
    session.flush()
    if step.outcome is not None:
        session.execute(
            update(Job).where(Job.id == job.id, Job.outcome.is_(None)).values(outcome=dict(step.outcome))
        )
    groups = list(step.groups)
    if step.kind in EVALUATED_KINDS and job.content_key is not None:
        groups = take_cached(session, job.id, job.content_key, groups)
    pieces = chunk_groups(
        groups,
        _seconds_per_group(session, job, step),
        chunk_seconds,
        fitting_workers(session, job.device_class, job.engine),
    )
    rows = [
        {
            "id": new_id(),
            "job_id": job.id,
            "level_id": level.id,
            "seq": seq,
            "kind": step.kind,
            "groups": [list(keys) for keys in piece],
            "priority": job.priority,
            "state": "pending",
        }
        for seq, piece in enumerate(pieces)
    ]
    if rows:
        session.execute(insert(Chunk), rows)
    emit(session, job.id, "level", idx=idx, kind=step.kind, depth=step.depth, state="running", size=step.size)
    return level, bool(rows)


def _seconds_per_group(session: Session, job: Job, step: NextLevel) -> float | None:
    """What a group will take, from the mean of the job's sparse configurations, or from dense before there are any.

    Ranking figures go by those that were taken before; the first ones take no longer than dense did.
    """
    if step.kind not in SEARCH_KINDS:
        return None
    seconds = select(func.avg(EvaluationRow.seconds)).where(EvaluationRow.job_id == job.id)
    if step.kind == "rank":
        mean = session.scalar(select(func.avg(RankRow.seconds)).where(RankRow.job_id == job.id))
    else:
        mean = session.scalar(seconds.where(EvaluationRow.depth > 0))
    if mean is None:
        mean = session.scalar(seconds.where(EvaluationRow.skip_key == skip_key(DENSE)))
    return None if mean is None else float(mean) * max(len(keys) for keys in step.groups)
