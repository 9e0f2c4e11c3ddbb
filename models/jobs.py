"""Jobs: a spec, its state, and the facts about the target that the first worker found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, SmallInteger, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Created, Id, one_of
from skipmap.spec import JobSpec

JobState = Literal["running", "pausing", "paused", "cancelling", "cancelled", "succeeded", "failed"]
ENDED: tuple[JobState, ...] = ("cancelled", "succeeded", "failed")
DEFAULT_PRIORITY = 5


class Job(Base):
    """One profiling job. Read it freely; only the transition functions of this package write it."""

    __tablename__ = "jobs"

    id: Mapped[Id] = mapped_column(primary_key=True)
    state: Mapped[JobState] = mapped_column(Text)
    # JSON keeps the text as it was given; what is searched for has columns of its own.
    spec: Mapped[dict[str, Any]] = mapped_column(JSON)
    spec_digest: Mapped[str]
    name: Mapped[str | None]
    labels: Mapped[dict[str, Any]]
    target: Mapped[str]
    draft: Mapped[str]
    domain: Mapped[str]
    strategy: Mapped[str] = mapped_column(server_default=text("'tss'"))
    """How it searches; processes of the release before know one way only."""
    priority: Mapped[int] = mapped_column(SmallInteger)
    created_by: Mapped[Id | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    calibration_set_id: Mapped[Id | None] = mapped_column(ForeignKey("calibration_sets.id"))

    device_class: Mapped[str | None]
    """Kind of device that may work on it (``cpu``, ``cuda``, ...); None until it is known."""
    engine: Mapped[str | None]
    """Engine version of its evaluations; workers with another one leave the job alone."""
    content_key: Mapped[str | None]
    facts: Mapped[dict[str, Any] | None]
    max_seconds: Mapped[float | None]

    outcome: Mapped[dict[str, Any] | None]
    """Pool, number of feasible sets, budget and why the search ended; from the end of the search on."""
    best: Mapped[dict[str, Any] | None]
    """Deepest feasible configuration so far; of a job that has succeeded, the selected one, None for dense."""
    error: Mapped[str | None]
    last_event: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """Number of its last event; grows with every change of its state and progress."""
    created_at: Mapped[Created]
    updated_at: Mapped[Created]
    cancel_requested_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        CheckConstraint(one_of("state", get_args(JobState)), "state"),
        CheckConstraint(f"({one_of('state', ENDED)}) = (finished_at IS NOT NULL)", "finished"),
        CheckConstraint(
            f"({one_of('state', ('cancelling', 'cancelled'))}) = (cancel_requested_at IS NOT NULL)", "cancel"
        ),
        CheckConstraint("priority BETWEEN 0 AND 9", "priority"),
        Index(None, "state", "id"),
        Index(None, "target", "id"),
        Index(None, "draft", "id"),
        Index(None, "domain", "id"),
        Index(None, "strategy", "id"),
        Index(None, "calibration_set_id"),
        Index("ix_jobs_labels", "labels", postgresql_using="gin"),
        {"postgresql_with": {"fillfactor": "85"}},
    )

    @property
    def parsed_spec(self) -> JobSpec:
        """The spec as the library's model."""
        return JobSpec.parse(self.spec)

    @property
    def parsed_facts(self) -> Facts | None:
        """What the first worker found, once it has."""
        return None if self.facts is None else Facts.from_json(self.facts)


@dataclass(frozen=True)
class Facts:
    """What only a worker can tell, since it loads the target and the data.

    ``fingerprint``: the target's; ``data_digest``: over both parts of the data; ``baseline``: metric of a trivial
    answer; ``held_out_items``: prompts of the held-out part; ``description``: more for documents, as plain values.
    """

    fingerprint: str
    data_digest: str
    num_layers: int
    block_types: Sequence[str]
    device_class: str
    engine: str
    content_key: str
    baseline: float
    held_out_items: int
    description: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"block_types": list(self.block_types)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Facts:
        """Inverse of ``to_json``."""
        return cls(**{**data, "block_types": tuple(data["block_types"])})
