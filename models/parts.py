"""What a job has stored, for the kinds of work that need all of it.

Figures are read at once; per-prompt records, of which a large job has gigabytes, page by page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Text, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from models.chunks import skip_key, skip_of
from models.evaluations import EvaluationRow
from models.findings import Finding, finding, findings_of
from models.jobs import Job
from models.ranks import ranks_of
from models.stored import search_seconds
from skipmap.profiling.evaluated import Evaluated, sparse_order
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import AcceptMeasure, Evaluation
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet

P = ParamSpec("P")
T = TypeVar("T")

PROMPTS_A_PAGE = 8192
"""Per-prompt records that are read in one statement, as far as whole evaluations allow."""


class Read(Protocol):
    """Runs work that only reads, as ``Database.read`` does; each call may be a transaction of its own."""

    def __call__(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What ``work(session, ...)`` returns."""


@dataclass(frozen=True)
class Figures:
    """Figures of one configuration over all prompts."""

    accept_length: float
    accepted_drafts: float
    metric: float

    def score(self, measure: AcceptMeasure) -> Score:
        """A by a measure, and M."""
        accept = self.accept_length if measure == "tokens_per_step" else self.accepted_drafts
        return Score(accept, self.metric)


@dataclass(frozen=True)
class StoredRows:
    """Evaluations in a given order, prompt by prompt; each iteration reads them anew, page by page."""

    read: Read
    job_id: str
    skips: Sequence[SkipSet]
    page: int

    def __iter__(self) -> Iterator[Evaluation]:
        for start in range(0, len(self.skips), self.page):
            yield from self.read(evaluations_at, self.job_id, self.skips[start : start + self.page])


@dataclass(frozen=True)
class Parts:
    """What a job has stored so far.

    ``figures``: of every configuration, dense among them; ``sparse``: all but dense, in the order of the result
    document; ``seconds``: spent on the search; ``ranks``: ranking figures, where the strategy takes any; ``cost``:
    payload of the cost level; ``held_out``: payloads by run of prompts; ``timings``: seconds of the later steps, for
    the record.
    """

    dense: Evaluation
    figures: Mapping[SkipSet, Figures]
    sparse: Iterable[Evaluation]
    seconds: float
    ranks: Mapping[SkipSet, float] = field(default_factory=dict)
    cost: Mapping[str, Any] | None = None
    held_out: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)

    def scores(self, measure: AcceptMeasure) -> dict[SkipSet, Score]:
        """A by a measure, and M, of every configuration."""
        return {skip: figures.score(measure) for skip, figures in self.figures.items()}

    @property
    def evaluated(self) -> Evaluated:
        """The evaluations as the library takes them."""
        return Evaluated(self.dense, self.scores("tokens_per_step"), self.sparse)


def read_parts(read: Read, job_id: str) -> Parts:
    """What a job whose dense evaluation is stored has so far; no statement reads more than a page of prompts."""
    (dense,) = read(evaluations_at, job_id, [DENSE])
    figures = read(figures_of, job_id)
    page = max(1, PROMPTS_A_PAGE // max(1, len(dense.prompts)))
    return Parts(
        dense,
        figures,
        StoredRows(read, job_id, sparse_order(figures), page),
        read(search_seconds, job_id),
        read(ranks_of, job_id),
        read(finding, job_id, "cost"),
        read(findings_of, job_id, "held_out"),
        read(timings_of, job_id),
    )


def evaluations_at(session: Session, job_id: str, skips: Sequence[SkipSet]) -> list[Evaluation]:
    """Evaluations of these configurations, in their order; raises LookupError when one is not stored."""
    keys = [skip_key(skip) for skip in skips]
    rows = session.scalars(
        select(EvaluationRow).where(
            EvaluationRow.job_id == job_id, EvaluationRow.skip_key == any_(literal(keys, ARRAY(Text)))
        )
    )
    found = {row.skip_key: row.evaluation for row in rows}
    missing = next((key for key in keys if key not in found), None)
    if missing is not None:
        raise LookupError(f"job {job_id} has no evaluation of {missing}; has it been deleted meanwhile?")
    return [found[key] for key in keys]


def figures_of(session: Session, job_id: str) -> dict[SkipSet, Figures]:
    """Figures of everything evaluated for a job so far."""
    columns = (EvaluationRow.accept_length, EvaluationRow.accepted_drafts, EvaluationRow.metric)
    rows = session.execute(select(EvaluationRow.skip_key, *columns).where(EvaluationRow.job_id == job_id))
    return {skip_of(key): Figures(*figures) for key, *figures in rows}


def timings_of(session: Session, job_id: str) -> dict[str, float]:
    """Seconds of cost and held-out check, and of the whole job until now."""
    later = session.execute(
        select(Finding.kind, func.sum(Finding.seconds))
        .where(Finding.job_id == job_id, Finding.kind != "result")
        .group_by(Finding.kind)
    )
    age = session.scalar(
        select(func.extract("epoch", func.clock_timestamp() - Job.created_at)).where(Job.id == job_id)
    )
    return {f"{kind}_seconds": float(seconds) for kind, seconds in later} | {"wall_seconds": float(age or 0)}
