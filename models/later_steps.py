"""Later steps: how long the measurement of cost and the held-out check took earlier jobs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Integer, cast, func, select
from sqlalchemy.orm import Session

from models.findings import Finding
from models.jobs import Job
from models.levels import Level

Span = tuple[float, float]
"""Likely and long seconds."""


@dataclass(frozen=True)
class LaterPace:
    """What comes after a search took so long; None where no job tells.

    ``cost``: measuring it; ``answer``: one held-out prompt with one configuration, by the live runtime; ``points``: how
    many configurations are usually checked beside dense.
    """

    cost: Span | None = None
    answer: Span | None = None
    points: int = 0

    def check_seconds(self, prompts: int, most_points: int) -> Span | None:
        """Likely and long time of one worker to check that many held-out prompts, with so many points at most."""
        if self.answer is None:
            return None
        likely, slow = self.answer
        usual = min(self.points, most_points)
        return prompts * (1 + usual) * likely, prompts * (1 + most_points) * slow


def later_pace(session: Session, job_ids: Sequence[str]) -> LaterPace:
    """How long those of the jobs took that came so far."""
    costs = _seconds(session, job_ids, "cost")
    checks = _seconds(session, job_ids, "held_out")
    done = session.execute(
        select(Level.job_id, Level.plan, cast(Job.facts["held_out_items"].astext, Integer).label("items"))
        .join(Job, Job.id == Level.job_id)
        .where(Level.job_id.in_(job_ids), Level.kind == "held_out", Level.state == "done")
    ).all()
    points = {row.job_id: len((row.plan or {}).get("points", ())) for row in done}
    answers = [
        checks[row.job_id] / (row.items * (1 + points[row.job_id]))
        for row in done
        if row.items and row.job_id in checks
    ]
    return LaterPace(
        cost=_span(list(costs.values())),
        answer=_span(answers),
        points=round(statistics.median(points.values())) if points else 0,
    )


def _seconds(session: Session, job_ids: Sequence[str], kind: str) -> dict[str, float]:
    """Seconds that the findings of a kind took in all, by job."""
    is_meant: list[ColumnElement[bool]] = [Finding.job_id.in_(job_ids), Finding.kind == kind]
    rows = session.execute(
        select(Finding.job_id, func.sum(Finding.seconds)).where(*is_meant).group_by(Finding.job_id)
    )
    return {job_id: float(seconds) for job_id, seconds in rows}


def _span(seconds: Sequence[float]) -> Span | None:
    return (statistics.median(seconds), max(seconds)) if seconds else None
