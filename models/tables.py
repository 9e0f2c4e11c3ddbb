"""All tables: importing this module fills the metadata."""

from __future__ import annotations

from models.accounts import Token, User
from models.attempts import Attempt
from models.audit import AuditEntry
from models.base import Base
from models.cache import CachedEvaluation
from models.calibration_sets import CalibrationSet
from models.catalog import Domain, Draft, Target
from models.channels import Channel, ChannelMove
from models.chunks import Chunk
from models.evaluations import EvaluationRow
from models.events import Event
from models.findings import Finding
from models.idempotency import IdempotencyKey
from models.jobs import Job
from models.levels import Level
from models.maps import Map, MapVersion
from models.marks import FormMark
from models.nodes import Node
from models.ranks import RankRow
from models.reconcilers import Reconciler
from models.sessions import UserSession
from models.workers import Worker

TABLES: tuple[type[Base], ...] = (
    User,
    Token,
    UserSession,
    FormMark,
    AuditEntry,
    Target,
    Draft,
    Domain,
    CalibrationSet,
    Job,
    IdempotencyKey,
    Level,
    Chunk,
    Attempt,
    EvaluationRow,
    RankRow,
    Finding,
    CachedEvaluation,
    Worker,
    Reconciler,
    Event,
    Map,
    MapVersion,
    Channel,
    ChannelMove,
    Node,
)
METADATA = Base.metadata
