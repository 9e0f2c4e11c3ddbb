"""Read-only queries: keyset pages of jobs and evaluations, one job with its levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Text, and_, any_, cast, func, literal, not_, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session, defer

from models.attempts import Attempt
from models.chunks import Chunk, skip_key
from models.evaluations import EvaluationRow
from models.jobs import Job, JobState
from models.levels import Level
from models.workers import live_kinds
from skipmap.canonical import digest
from skipmap.errors import NotFound
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import AcceptMeasure
from skipmap.profiling.search import DENSE, SLACK, Floors
from skipmap.profiling.search import floors as floors_below
from skipmap.spec import SearchSpec

_TAG_CHARACTERS = 12

EvaluationSort = Literal["skip", "metric", "accept_length"]


@dataclass(frozen=True)
class JobView:
    """A job with its levels in order."""

    job: Job
    levels: Sequence[Level]


def find_job(session: Session, job_id: str) -> JobView:
    """One job; raises NotFound."""
    job = session.get(Job, job_id, populate_existing=True)
    if job is None:
        raise NotFound(f"no job {job_id!r}")
    levels = session.scalars(select(Level).where(Level.job_id == job_id).order_by(Level.idx)).all()
    return JobView(job, levels)


def job_revision(session: Session, job_id: str) -> int:
    """Number of the job's last event; raises NotFound."""
    revision = session.scalar(select(Job.last_event).where(Job.id == job_id))
    if revision is None:
        raise NotFound(f"no job {job_id!r}")
    return revision


@dataclass(frozen=True)
class Glance:
    """What one small read tells of a job. ``tag`` is another one whenever anything else that is shown has changed.

    ``waiting_for``: what keeps a running job from being taken up, in plain words; None when nothing does.
    """

    state: JobState
    tag: str
    waiting_for: str | None


# Few chunks run at a time, and a job may have very many: they are read by the index on those that run.
_GLANCE = text("""
    WITH running AS MATERIALIZED (SELECT id, job_id, claim_token FROM chunks WHERE state = 'running')
    SELECT j.state, j.last_event, j.device_class, j.engine, (
        SELECT string_agg(CAST(c.claim_token AS text), ' ' ORDER BY c.id) FROM running AS c WHERE c.job_id = j.id
    ) AS claims
    FROM jobs AS j WHERE j.id = :job_id
""")


def glance(session: Session, job_id: str, within_seconds: float) -> Glance:
    """Look at a job; workers are live that gave a sign of life within so many seconds. Raises NotFound.

    The tag holds the number of the last event, and a digest of what comes and goes without one: claims and workers.
    """
    row = session.execute(_GLANCE, {"job_id": job_id}).first()
    if row is None:
        raise NotFound(f"no job {job_id!r}")
    waiting = None
    if row.state == "running" and row.claims is None:
        waiting = _waiting_for(live_kinds(session, within_seconds), row.device_class, row.engine)
    passing = [part for part in (row.claims, waiting) if part is not None]
    tag = "-".join([str(row.last_event), *(digest(part)[:_TAG_CHARACTERS] for part in passing)])
    return Glance(row.state, tag, waiting)


def _waiting_for(kinds: set[tuple[str, str]], device_class: str | None, engine: str | None) -> str | None:
    """What is missing for a job of this device class and engine among live workers of these."""
    needs = (("of device class", device_class), ("with engine version", engine))
    fitting = [
        kind for kind in kinds if all(need in (None, has) for (_, need), has in zip(needs, kind, strict=True))
    ]
    if fitting:
        return None
    if not kinds:
        return "no live worker"
    has = [{kind[0] for kind in kinds}, {kind[1] for kind in kinds}]
    missing = [need for need, there in zip(needs, has, strict=True) if need[1] not in {None, *there}]
    # Each may be there by itself, and no worker has both.
    return "no live worker " + " and ".join(f"{words} {value}" for words, value in missing or needs)


@dataclass(frozen=True)
class JobMark:
    """How far a job is: its state and the number of its last event."""

    state: JobState
    last_event: int


def job_marks(session: Session, job_ids: Sequence[str]) -> dict[str, JobMark]:
    """Marks of several jobs; those that do not exist are left out."""
    rows = session.execute(select(Job.id, Job.state, Job.last_event).where(Job.id.in_(job_ids)))
    return {row.id: JobMark(row.state, row.last_event) for row in rows}


def list_jobs(
    session: Session,
    *,
    limit: int,
    before: str | None = None,
    state: JobState | None = None,
    target: str | None = None,
    draft: str | None = None,
    domain: str | None = None,
    strategy: str | None = None,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Sequence[Job]:
    """Jobs, newest first; ``before``: id of the last one of the page before, ``name``: a part of the name."""
    # What a list does not show may be long.
    unread = (defer(column, raiseload=True) for column in (Job.spec, Job.facts, Job.outcome))
    query = select(Job).options(*unread).order_by(Job.id.desc()).limit(limit)
    if before is not None:
        query = query.where(Job.id < before)
    wanted = (
        (Job.state, state),
        (Job.target, target),
        (Job.draft, draft),
        (Job.domain, domain),
        (Job.strategy, strategy),
    )
    for column, value in wanted:
        if value is not None:
            query = query.where(column == value)
    if labels:
        query = query.where(Job.labels.contains(dict(labels)))
    if name is not None:
        query = query.where(Job.name.icontains(name, autoescape=True))
    return session.scalars(query).all()


def levels_of(session: Session, job_ids: Sequence[str]) -> dict[str, list[Level]]:
    """Levels of several jobs, in order."""
    found: dict[str, list[Level]] = {job_id: [] for job_id in job_ids}
    unread = defer(Level.plan, raiseload=True)
    query = select(Level).options(unread).where(Level.job_id.in_(job_ids)).order_by(Level.job_id, Level.idx)
    for level in session.scalars(query):
        found[level.job_id].append(level)
    return found


def running_chunks(session: Session, job_ids: Sequence[str]) -> dict[str, int]:
    """How many chunks of several jobs are at work just now; jobs with none are left out."""
    rows = session.execute(
        select(Chunk.job_id, func.count().label("number"))
        .where(Chunk.state == "running", Chunk.job_id.in_(job_ids))
        .group_by(Chunk.job_id)
    )
    return {row.job_id: row.number for row in rows}


def floors_of(session: Session, job_id: str, search: SearchSpec) -> Floors | None:
    """The floors of a job on its calibration part; None until dense has been evaluated."""
    dense = session.execute(
        select(accept_column(search.accept_measure), EvaluationRow.metric).where(
            EvaluationRow.job_id == job_id, EvaluationRow.skip_key == skip_key(DENSE)
        )
    ).first()
    return None if dense is None else floors_below(Score(dense[0], dense[1]), search.eps, search.tau)


def accept_column(measure: AcceptMeasure) -> ColumnElement[float]:
    """The column that the accept floor looks at."""
    column = EvaluationRow.accept_length if measure == "tokens_per_step" else EvaluationRow.accepted_drafts
    return column.expression


def meets(floors: Floors, measure: AcceptMeasure) -> ColumnElement[bool]:
    """Condition for the rows that meet both floors, as ``Floors.admits`` tells it of a score."""
    return and_(
        accept_column(measure) >= floors.accept - SLACK, EvaluationRow.metric >= floors.metric - SLACK
    )


def list_evaluations(
    session: Session,
    job_id: str,
    *,
    limit: int,
    sort: EvaluationSort = "skip",
    descending: bool = False,
    after: Sequence[Any] | None = None,
    depth: int | None = None,
    floors: Floors | None = None,
    measure: AcceptMeasure = "tokens_per_step",
    feasible: bool | None = None,
    prompts: bool = False,
) -> Sequence[EvaluationRow]:
    """Evaluations of a job in the order asked for; ``after``: ``place_of`` the last one of the page before.

    ``feasible`` asks for those that meet ``floors`` by ``measure``, or for those that do not; without floors nothing
    is known to be either. Per-prompt records are read only with ``prompts``.
    """
    if feasible is not None and floors is None:
        return []
    columns = _order(sort)
    query = select(EvaluationRow).where(EvaluationRow.job_id == job_id).limit(limit)
    if depth is not None:
        query = query.where(EvaluationRow.depth == depth)
    if feasible is not None and floors is not None:
        met = meets(floors, measure)
        query = query.where(met if feasible else not_(met))
    if after is not None:
        place, last = tuple_(*columns), tuple_(*after)
        query = query.where(place < last if descending else place > last)
    if not prompts:
        query = query.options(defer(EvaluationRow.prompts, raiseload=True))
    return session.scalars(
        query.order_by(*(column.desc() if descending else column.asc() for column in columns))
    ).all()


def prompt_texts(session: Session, job_id: str, keys: Sequence[str]) -> dict[str, str]:
    """Per-prompt records of the configurations with these keys, as JSON text."""
    rows = session.execute(
        select(EvaluationRow.skip_key, cast(EvaluationRow.prompts, Text).label("prompts")).where(
            EvaluationRow.job_id == job_id, EvaluationRow.skip_key == any_(literal(keys, ARRAY(Text)))
        )
    )
    return {row.skip_key: row.prompts for row in rows}


def place_of(row: EvaluationRow, sort: EvaluationSort) -> list[Any]:
    """Where a row stands in an order, as plain values, to go on after it."""
    if sort == "skip":
        return [row.depth, row.skip]
    return [row.metric if sort == "metric" else row.accept_length, row.skip_key]


def chunk_counts(session: Session, job_id: str) -> dict[str, int]:
    """How many chunks of a job are in which state."""
    rows = session.execute(
        select(Chunk.state, func.count().label("number")).where(Chunk.job_id == job_id).group_by(Chunk.state)
    )
    return {row.state: row.number for row in rows}


def failed_chunks(session: Session, job_id: str) -> Sequence[Chunk]:
    """Chunks that were set aside, with their errors."""
    return session.scalars(
        select(Chunk).where(Chunk.job_id == job_id, Chunk.state == "failed").order_by(Chunk.id)
    ).all()


def job_totals(session: Session) -> dict[JobState, int]:
    """How many jobs there are in each state."""
    rows = session.execute(select(Job.state, func.count().label("number")).group_by(Job.state))
    found = {row.state: row.number for row in rows}
    return {state: found.get(state, 0) for state in get_args(JobState)}


def chunk_totals(session: Session) -> dict[str, int]:
    """How many chunks of all jobs are pending, running and failed."""
    return {
        state: session.scalar(select(func.count()).where(Chunk.state == text(f"'{state}'"))) or 0
        for state in ("pending", "running", "failed")
    }


def attempts_of(session: Session, chunk_ids: Sequence[str]) -> dict[str, list[Attempt]]:
    """What became of every claim of several chunks, oldest first."""
    found: dict[str, list[Attempt]] = {chunk_id: [] for chunk_id in chunk_ids}
    for attempt in session.scalars(
        select(Attempt).where(Attempt.chunk_id.in_(chunk_ids)).order_by(Attempt.ended_at)
    ):
        found[attempt.chunk_id].append(attempt)
    return found


def _order(sort: EvaluationSort) -> tuple[ColumnElement[Any], ...]:
    if sort == "skip":
        return EvaluationRow.depth.expression, EvaluationRow.skip.expression
    figure = EvaluationRow.metric if sort == "metric" else EvaluationRow.accept_length
    return figure.expression, EvaluationRow.skip_key.expression
