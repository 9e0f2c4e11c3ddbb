"""What the API takes and answers. The server validates and writes with these models, and the client reads with them.

Answers are read leniently, so that a client also understands a newer server.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field

from skipmap.client.bases import Answer, Request
from skipmap.spec import DomainSpec, DraftSpec, JobSpec, TargetSpec

JobState = Literal["running", "pausing", "paused", "cancelling", "cancelled", "succeeded", "failed"]
LevelKind = Literal["dense", "single", "level", "rank", "cost", "held_out", "result"]
LevelState = Literal["running", "done", "failed", "cancelled"]

ENDED: tuple[JobState, ...] = ("cancelled", "succeeded", "failed")
SET_SOURCE = "set:"
"""A calibration source of this form names an uploaded calibration set by its id."""

Item = TypeVar("Item")
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]


class Problem(Answer):
    """RFC 9457 problem details. ``type``: stable address of the kind of problem; ``field``: the input at fault."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str | None = None
    field: str | None = None
    state: str | None = None
    """On a conflict: the state that the thing is in."""
    request_id: str | None = None


class Page(Answer, Generic[Item]):
    """One page. ``next_cursor``: give it as ``cursor`` to get the page after; None on the last one."""

    items: list[Item]
    next_cursor: str | None = None


class JobRequest(JobSpec):
    """A job spec with what is the service's alone."""

    priority: int = Field(default=5, ge=0, le=9)
    """9 comes first."""

    @property
    def spec(self) -> JobSpec:
        """The spec alone."""
        return JobSpec.model_validate(self.model_dump(exclude={"priority"}))


class PriorityChange(Request):
    """A new priority of a job that has not ended."""

    priority: int = Field(ge=0, le=9)


class BestPoint(Answer):
    """Cheapest feasible configuration so far."""

    skip: list[int]
    accept_length: float
    metric: float


class LevelView(Answer):
    """A step of a job. ``done`` of ``total``: configurations, ranking figures of them, or runs of held-out prompts."""

    idx: int
    kind: LevelKind
    depth: int | None
    state: LevelState
    done: int
    total: int
    feasible: int
    created_at: datetime
    finished_at: datetime | None


class Progress(Answer):
    """How far a job is, over all levels that are known so far.

    ``rate``: units a second over the running level's last evaluations; ``eta_seconds``: (likely, pessimistic) seconds
    until the running level ends, None when not known.
    """

    done: int
    total: int
    rate: float | None
    eta_seconds: tuple[float, float] | None


class JobSummary(Answer):
    """A job as lists show it."""

    id: str
    name: str | None
    labels: dict[str, str]
    state: JobState
    target: str
    draft: str
    domain: str
    strategy: str = "tss"
    """How it searches; a server that tells none knows one way only."""
    priority: int
    progress: Progress
    level: LevelView | None
    """The running level, or the last one."""
    best: BestPoint | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class AttemptView(Answer):
    """What became of one try of a chunk. ``owner``: the worker that had it."""

    outcome: str
    owner: str
    error: str | None
    started_at: datetime
    ended_at: datetime


class FailedChunk(Answer):
    """Work that was set aside."""

    id: str
    kind: LevelKind
    groups: list[list[str]]
    attempts: int
    error: str | None
    history: list[AttemptView] = Field(default=[])
    """The last attempts, oldest first."""


class JobView(JobSummary):
    """One job whole."""

    spec: dict[str, Any]
    calibration_set: str | None
    created_by: str | None
    levels: list[LevelView]
    chunks: dict[str, int]
    """Chunks by state."""
    waiting_for: str | None = None
    """What keeps a running job from being taken up, in plain words; None when nothing does."""
    failed_chunks: list[FailedChunk]
    outcome: dict[str, Any] | None
    """Pool, number of feasible sets, budget and why the search ended; once it has."""


class EvaluationView(Answer):
    """One configuration's figures."""

    skip: list[int]
    level: int
    accept_length: float
    accepted_drafts: float
    metric: float
    steps: int
    tree_size: float
    feasible: bool | None
    """None while dense is not known."""
    evaluator: str
    batch_split: bool
    cached: bool
    seconds: float
    per_prompt: list[dict[str, Any]] | None = None


class CalibrationSetView(Answer):
    """An uploaded calibration set."""

    id: str
    name: str
    sha256: str
    bytes: int
    items: int
    statistics: dict[str, Any]
    created_at: datetime


class ItemPreview(Answer):
    """One item of a calibration set."""

    id: str
    turns: list[str]
    references: list[str]
    category: str | None = None


class EntryView(Answer):
    """A target, a draft or a domain that can be profiled. ``definition``: fields of the spec's section."""

    name: str
    built_in: bool
    definition: dict[str, Any]
    description: str = ""
    parameters: dict[str, Any] | None = None
    """Of a draft: JSON schema of its parameters."""
    created_at: datetime | None = None


class TargetRequest(Request):
    """A target under a short name."""

    name: Name
    definition: TargetSpec


class DraftRequest(Request):
    """A draft method with parameters under a short name."""

    name: Name
    definition: DraftSpec


class DomainRequest(Request):
    """A kind of traffic under a name; ``definition.name`` must be that name."""

    name: Name
    definition: DomainSpec


class WorkerView(Answer):
    """A place that works, or has worked. ``live``: it may claim, and gave a sign of life lately."""

    owner: str
    host: str
    device_class: str
    engine: str
    version: str
    live: bool
    draining: bool
    quarantined_until: datetime | None
    chunk: str | None
    """What it is at, and of which job."""
    job: str | None
    started_at: datetime
    seen_at: datetime


class Alive(Answer):
    """The process answers."""

    status: Literal["alive"]


class Ready(Answer):
    """What the service can reach. ``workers``: live ones by device class."""

    status: Literal["ready", "degraded", "unavailable"]
    database: bool
    broker: bool | None
    reconciler: bool
    workers: dict[str, int]
