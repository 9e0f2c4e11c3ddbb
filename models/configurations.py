"""One configuration of a job: its figures, and the parts of the result that tell more of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text, cast, select
from sqlalchemy.orm import Session, defer

from models.evaluations import EvaluationRow
from models.findings import WHOLE, Finding
from skipmap.errors import NotFound


def find_evaluation(session: Session, job_id: str, key: str) -> EvaluationRow:
    """The evaluation with this key, without what it answered; raises NotFound."""
    unread = defer(EvaluationRow.prompts, raiseload=True)
    row = session.get(EvaluationRow, (job_id, key), options=[unread])
    if row is None:
        raise NotFound(
            f"job {job_id} has not evaluated {key}; look at its configurations for those that it has"
        )
    return row


def held_out_text(session: Session, job_id: str) -> str | None:
    """The held-out part of a job's result with the records of its prompts, as JSON; None while there is no result.

    The database takes it out of the document, most of which are rows of configurations.
    """
    return _part_of_result(session, job_id, Finding.payload["document"]["held_out"])


def result_text(session: Session, job_id: str) -> str | None:
    """The result document of a job, as JSON; None while there is none."""
    return _part_of_result(session, job_id, Finding.payload["document"])


def _part_of_result(session: Session, job_id: str, part: ColumnElement[Any]) -> str | None:
    text: str | None = session.scalar(
        select(cast(part, Text)).where(
            Finding.job_id == job_id, Finding.kind == "result", Finding.key == WHOLE
        )
    )
    return text
