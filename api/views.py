"""Views: stored rows as documents of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from models.accounts import Token, User
from models.attempts import Attempt
from models.calibration_sets import CalibrationSet
from models.chunks import Chunk
from models.evaluations import EvaluationRow
from models.jobs import Job
from models.levels import Level
from models.queries import (
    attempts_of,
    chunk_counts,
    failed_chunks,
    find_job,
    glance,
    levels_of,
    running_chunks,
)
from models.workers import WorkerState
from skipmap.client.accounts import TokenView, UserView
from skipmap.client.documents import (
    AttemptView,
    BestPoint,
    CalibrationSetView,
    EvaluationView,
    FailedChunk,
    JobSummary,
    JobView,
    LevelView,
    Progress,
    WorkerView,
)
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import AcceptMeasure
from skipmap.profiling.search import Floors

_ATTEMPTS_SHOWN = 10


def job_view(session: Session, job_id: str, lease_seconds: float) -> tuple[JobView, str]:
    """One job whole, and its tag (see ``glance``), which is read first; raises NotFound."""
    seen = glance(session, job_id, lease_seconds)
    found = find_job(session, job_id)
    job = found.job
    counts = chunk_counts(session, job_id)
    summary = job_summary(job, found.levels, counts.get("running", 0))
    failed = failed_chunks(session, job_id)
    attempts = attempts_of(session, [chunk.id for chunk in failed])
    view = JobView(
        **dict(summary),
        spec=job.spec,
        calibration_set=job.calibration_set_id,
        created_by=job.created_by,
        levels=[level_view(level) for level in found.levels],
        chunks=counts,
        waiting_for=seen.waiting_for,
        failed_chunks=[failed_chunk(chunk, attempts[chunk.id]) for chunk in failed],
        outcome=job.outcome,
    )
    return view, seen.tag


def job_summaries(session: Session, jobs: Sequence[Job]) -> list[JobSummary]:
    """Jobs as a list shows them, with two queries for all."""
    ids = [job.id for job in jobs]
    levels, running = levels_of(session, ids), running_chunks(session, ids)
    return [job_summary(job, levels[job.id], running.get(job.id, 0)) for job in jobs]


def job_summary(job: Job, levels: Sequence[Level], at_work: int) -> JobSummary:
    """A job as lists show it; ``at_work``: its chunks that workers have just now."""
    return JobSummary(
        id=job.id,
        name=job.name,
        labels=job.labels,
        state=job.state,
        target=job.target,
        draft=job.draft,
        domain=job.domain,
        strategy=job.strategy,
        priority=job.priority,
        progress=progress(levels, at_work),
        level=level_view(levels[-1]) if levels else None,
        best=BestPoint(**job.best) if job.best is not None else None,
        error=job.error,
        created_at=job.created_at,
        updated_at=job.updated_at,
        finished_at=job.finished_at,
    )


def progress(levels: Sequence[Level], at_work: int) -> Progress:
    """Units done of those known; rate and time left from the running level's pace and the workers on it."""
    done, total = sum(level.done for level in levels), sum(level.size for level in levels)
    level = levels[-1] if levels else None
    if level is None or level.state != "running" or not level.pace or not at_work:
        return Progress(done=done, total=total, rate=None, eta_seconds=None)
    median, slow, left = level.pace["median"], level.pace["p80"], level.size - level.done
    return Progress(
        done=done,
        total=total,
        rate=at_work / median if median > 0 else None,
        eta_seconds=(left * median / at_work, left * slow / at_work),
    )


def level_view(level: Level) -> LevelView:
    """A step of a job."""
    return LevelView(
        idx=level.idx,
        kind=level.kind,
        depth=level.depth,
        state=level.state,
        done=level.done,
        total=level.size,
        feasible=level.feasible,
        created_at=level.created_at,
        finished_at=level.finished_at,
    )


def failed_chunk(chunk: Chunk, attempts: Sequence[Attempt]) -> FailedChunk:
    """Work that was set aside, with the last of its attempts."""
    return FailedChunk(
        id=chunk.id,
        kind=chunk.kind,
        groups=chunk.groups,
        attempts=chunk.attempt,
        error=chunk.last_error,
        history=[
            AttemptView(
                outcome=attempt.outcome,
                owner=attempt.owner,
                error=attempt.error,
                started_at=attempt.started_at,
                ended_at=attempt.ended_at,
            )
            for attempt in attempts[-_ATTEMPTS_SHOWN:]
        ],
    )


def evaluation_view(
    row: EvaluationRow, floors: Floors | None, measure: AcceptMeasure, *, per_prompt: bool = False
) -> EvaluationView:
    """One configuration's figures; ``per_prompt`` only for rows that were read with their prompts."""
    accept = row.accept_length if measure == "tokens_per_step" else row.accepted_drafts
    return EvaluationView(
        skip=row.skip,
        level=row.depth,
        accept_length=row.accept_length,
        accepted_drafts=row.accepted_drafts,
        metric=row.metric,
        steps=row.steps,
        tree_size=row.figures["tree_size"],
        feasible=None if floors is None else floors.admits(Score(accept, row.metric)),
        evaluator=row.evaluator,
        batch_split=row.batch_split,
        cached=row.cached,
        seconds=row.seconds,
        per_prompt=row.prompts if per_prompt else None,
    )


def set_view(row: CalibrationSet) -> CalibrationSetView:
    """An uploaded calibration set."""
    return CalibrationSetView(
        id=row.id,
        name=row.name,
        sha256=row.sha256,
        bytes=row.size,
        items=row.items,
        statistics=row.statistics,
        created_at=row.created_at,
    )


def worker_view(state: WorkerState) -> WorkerView:
    """A worker, and what it is at."""
    worker = state.worker
    return WorkerView(
        owner=worker.owner,
        host=worker.host,
        device_class=worker.device_class,
        engine=worker.engine,
        version=worker.version,
        live=state.live,
        draining=worker.draining,
        quarantined_until=worker.quarantined_until,
        chunk=state.chunk,
        job=state.job,
        started_at=worker.started_at,
        seen_at=worker.seen_at,
    )


def token_fields(token: Token) -> dict[str, Any]:
    """What may be shown of a token at any time."""
    names = TokenView.model_fields
    return {name: getattr(token, name) for name in names}


def user_view(user: User) -> UserView:
    """Somebody who signs in or holds tokens."""
    return UserView(
        id=user.id,
        name=user.name,
        role=user.role,
        has_password=user.password_hash is not None,
        created_at=user.created_at,
        disabled_at=user.disabled_at,
    )
