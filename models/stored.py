"""What a job has stored, read together: what the next level, and the result, are made of."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.chunks import Chunk, skip_key
from models.evaluations import EvaluationRow, scores_of
from models.expand import Stored
from models.findings import Finding, finding
from models.jobs import Job
from models.levels import SEARCH_KINDS
from models.ranks import ranks_of
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet


def stored_of(session: Session, job: Job) -> Stored:
    """Read what a job whose dense evaluation is stored has so far."""
    spec, facts = job.parsed_spec, job.parsed_facts
    if facts is None:
        raise RuntimeError(f"job {job.id} has evaluations and no target facts")
    dense = session.get_one(EvaluationRow, (job.id, skip_key(DENSE)))
    cost = finding(session, job.id, "cost")
    kinds = session.execute(
        select(Finding.kind, Finding.key).where(Finding.job_id == job.id, Finding.kind != "cost")
    ).all()
    return Stored(
        spec=spec,
        facts=facts,
        scores=scores_of(session, job.id, spec.search.accept_measure),
        ranks=ranks_of(session, job.id),
        dense_steps=dense.steps,
        dense_metric=dense.metric,
        seconds_spent=search_seconds(session, job.id),
        points=None if cost is None else tuple(SkipSet.of(blocks) for blocks in cost["points"]),
        held_out_runs=[key for kind, key in kinds if kind == "held_out"],
        has_result=any(kind == "result" for kind, _ in kinds),
    )


def search_seconds(session: Session, job_id: str) -> float:
    """Seconds that all workers together have spent on the search of a job."""
    spent = session.scalar(
        select(func.sum(Chunk.seconds)).where(Chunk.job_id == job_id, Chunk.kind.in_(SEARCH_KINDS))
    )
    return float(spent or 0.0)
