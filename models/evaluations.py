"""Evaluations: one row a job and configuration; the first committed value stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, SmallInteger, String, Text, false, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id
from models.chunks import skip_key, skip_of
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import AcceptMeasure, Evaluation, EvaluatorName, PromptRecord
from skipmap.skipset import SkipSet


class Figures:
    """Columns of one evaluated configuration, for a job's own rows and for the cache alike."""

    skip_key: Mapped[str] = mapped_column(String(collation="C"), primary_key=True)
    accept_length: Mapped[float]
    accepted_drafts: Mapped[float]
    steps: Mapped[int]
    metric: Mapped[float]
    evaluator: Mapped[EvaluatorName] = mapped_column(Text)
    batch_split: Mapped[bool]
    seconds: Mapped[float]
    """Its share of the seconds that its group took."""
    figures: Mapped[dict[str, Any]]
    """The other figures over all prompts."""
    prompts: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    """Per-prompt records. JSON and not JSONB, for a model may answer with a NUL character."""

    @property
    def evaluation(self) -> Evaluation:
        """The library's record."""
        return Evaluation(
            skip_of(self.skip_key),
            self.evaluator,
            tuple(PromptRecord.from_json(prompt) for prompt in self.prompts),
            self.metric,
            self.batch_split,
        )


FIGURES = {
    "skip_key": "text",
    "accept_length": "float8",
    "accepted_drafts": "float8",
    "steps": "int",
    "metric": "float8",
    "evaluator": "text",
    "batch_split": "bool",
    "seconds": "float8",
    "figures": "jsonb",
    "prompts": "json",
}
"""Columns of ``Figures`` and their SQL types, in the order in which statements name them."""


class EvaluationRow(Figures, Base):
    """A configuration evaluated for a job, or taken from the cache for it."""

    __tablename__ = "evaluations"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    skip: Mapped[list[int]] = mapped_column(ARRAY(SmallInteger))
    depth: Mapped[int] = mapped_column(SmallInteger)
    cached: Mapped[bool] = mapped_column(server_default=false())
    chunk_id: Mapped[Id | None]
    claim_token: Mapped[UUID | None]
    owner: Mapped[str | None]
    created_at: Mapped[Created]

    __table_args__ = (
        CheckConstraint("depth = cardinality(skip)", "depth"),
        CheckConstraint("metric >= 0 AND metric <= 1", "metric"),
        CheckConstraint("accept_length >= 0 AND accepted_drafts >= 0 AND steps >= 0", "counts"),
        Index(None, "job_id", "depth", "skip"),
        Index(None, "job_id", "metric", "skip_key"),
        Index(None, "job_id", "accept_length", "skip_key"),
    )


def columns_of(evaluations: Sequence[Evaluation], seconds: float) -> dict[str, list[Any]]:
    """Arrays of the ``FIGURES`` columns, as the statement that stores a group takes them; ascending by key.

    ``seconds`` of the group are shared out evenly.
    """
    # One order everywhere: two groups that meet in the cache must not wait for each other crosswise.
    ordered = sorted(evaluations, key=lambda evaluation: skip_key(evaluation.skip))
    rest = [
        {
            "tree_size": evaluation.tree_size,
            "accepted_histogram": list(evaluation.accepted_histogram),
            "proposed_histogram": list(evaluation.proposed_histogram),
            "idle_prompts": evaluation.idle_prompts,
        }
        for evaluation in ordered
    ]
    return {
        "skip_key": [skip_key(e.skip) for e in ordered],
        "accept_length": [e.accept_length for e in ordered],
        "accepted_drafts": [e.accepted_drafts for e in ordered],
        "steps": [e.steps for e in ordered],
        "metric": [e.metric for e in ordered],
        "evaluator": [e.evaluator for e in ordered],
        "batch_split": [e.batch_split for e in ordered],
        "seconds": [seconds / len(ordered)] * len(ordered),
        "figures": [json.dumps(figures) for figures in rest],
        "prompts": [json.dumps([prompt.to_json() for prompt in e.prompts]) for e in ordered],
    }


def scores_of(session: Session, job_id: str, measure: AcceptMeasure) -> dict[SkipSet, Score]:
    """A and M of everything evaluated for a job so far, by the accept measure of its spec."""
    accept = EvaluationRow.accept_length if measure == "tokens_per_step" else EvaluationRow.accepted_drafts
    rows = session.execute(
        select(EvaluationRow.skip_key, accept, EvaluationRow.metric).where(EvaluationRow.job_id == job_id)
    )
    return {skip_of(key): Score(a, m) for key, a, m in rows}
