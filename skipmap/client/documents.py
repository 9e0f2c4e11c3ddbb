"""What the API takes and answers. The server validates and writes with these models, and the client reads with them.

Answers are read leniently, so that a client also understands a newer server.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from skipmap.spec import DomainSpec, DraftSpec, JobSpec, TargetSpec

JobState = Literal["running", "pausing", "paused", "cancelling", "cancelled", "succeeded", "failed"]
LevelKind = Literal["dense", "single", "level", "cost", "held_out", "result"]
LevelState = Literal["running", "done", "failed", "cancelled"]
Scope = Literal["jobs:read", "jobs:write", "maps:read", "maps:publish", "nodes:report", "admin"]

ENDED: tuple[JobState, ...] = ("cancelled", "succeeded", "failed")
SET_SOURCE = "set:"
"""A calibration source of this form names an uploaded calibration set by its id."""

Item = TypeVar("Item")
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Problem(_Answer):
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


class Page(_Answer, Generic[Item]):
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


class PriorityChange(_Request):
    """A new priority of a job that has not ended."""

    priority: int = Field(ge=0, le=9)


class BestPoint(_Answer):
    """Cheapest feasible configuration so far."""

    skip: list[int]
    accept_length: float
    metric: float


class LevelView(_Answer):
    """A step of a job. ``done`` of ``total``: configurations, or runs of held-out prompts."""

    idx: int
    kind: LevelKind
    depth: int | None
    state: LevelState
    done: int
    total: int
    feasible: int
    created_at: datetime
    finished_at: datetime | None


class Progress(_Answer):
    """How far a job is, over all levels that are known so far.

    ``rate``: units a second over the running level's last evaluations; ``eta_seconds``: (likely, pessimistic) seconds
    until the running level ends, None when not known.
    """

    done: int
    total: int
    rate: float | None
    eta_seconds: tuple[float, float] | None


class JobSummary(_Answer):
    """A job as lists show it."""

    id: str
    name: str | None
    labels: dict[str, str]
    state: JobState
    target: str
    draft: str
    domain: str
    priority: int
    progress: Progress
    level: LevelView | None
    """The running level, or the last one."""
    best: BestPoint | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class FailedChunk(_Answer):
    """Work that was set aside."""

    id: str
    kind: LevelKind
    groups: list[list[str]]
    attempts: int
    error: str | None


class JobView(JobSummary):
    """One job whole."""

    spec: dict[str, Any]
    calibration_set: str | None
    created_by: str | None
    levels: list[LevelView]
    chunks: dict[str, int]
    """Chunks by state."""
    failed_chunks: list[FailedChunk]
    outcome: dict[str, Any] | None
    """Pool, number of feasible sets, budget and why the search ended; once it has."""


class EvaluationView(_Answer):
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


class CalibrationSetView(_Answer):
    """An uploaded calibration set."""

    id: str
    name: str
    sha256: str
    bytes: int
    items: int
    statistics: dict[str, Any]
    created_at: datetime


class ItemPreview(_Answer):
    """One item of a calibration set."""

    id: str
    turns: list[str]
    references: list[str]
    category: str | None = None


class EntryView(_Answer):
    """A target, a draft or a domain that can be profiled. ``definition``: fields of the spec's section."""

    name: str
    built_in: bool
    definition: dict[str, Any]
    description: str = ""
    parameters: dict[str, Any] | None = None
    """Of a draft: JSON schema of its parameters."""
    created_at: datetime | None = None


class TargetRequest(_Request):
    """A target under a short name."""

    name: Name
    definition: TargetSpec


class DraftRequest(_Request):
    """A draft method with parameters under a short name."""

    name: Name
    definition: DraftSpec


class DomainRequest(_Request):
    """A kind of traffic under a name; ``definition.name`` must be that name."""

    name: Name
    definition: DomainSpec


class TokenRequest(_Request):
    """A new token for a user."""

    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field(min_length=1)
    user_id: str | None = None
    """Whose; None: the caller's own."""
    expires_in_seconds: float | None = Field(default=None, gt=0, le=10 * 365 * 86400)


class TokenView(_Answer):
    """A token without its secret."""

    id: str
    user_id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewToken(TokenView):
    """A token just made; ``secret`` is shown this once."""

    secret: str


class UserRequest(_Request):
    """A new user."""

    name: str = Field(min_length=1, max_length=100)


class UserView(_Answer):
    """Somebody who holds tokens."""

    id: str
    name: str
    created_at: datetime
    disabled_at: datetime | None


class Me(_Answer):
    """Who the caller is, and what the token allows."""

    user_id: str
    user_name: str
    token_id: str
    scopes: list[Scope]


class Alive(_Answer):
    """The process answers."""

    status: Literal["alive"]


class Ready(_Answer):
    """What the service can reach. ``workers``: live ones by device class."""

    status: Literal["ready", "degraded", "unavailable"]
    database: bool
    broker: bool | None
    reconciler: bool
    workers: dict[str, int]
