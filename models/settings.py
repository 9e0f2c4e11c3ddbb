"""Settings of the service, read once from the environment (``SKIPMAP_...``)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from skipmap.errors import InvalidInput

_DRIVER = "postgresql+psycopg"
_BEATS_A_LEASE = 4


class ServiceSettings(BaseSettings):
    """Addresses, leases, limits. Every field is set by ``SKIPMAP_`` and its name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    database_url: str = Field(repr=False)
    broker_url: str | None = Field(default=None, repr=False)

    lease_seconds: float = Field(default=60, gt=0, le=3600)
    """How long a worker owns a chunk after its last sign of life."""
    heartbeat_seconds: float = Field(default=15, gt=0)
    stall_seconds: float = Field(default=120, gt=0)
    """A forward that takes longer counts as hung."""
    load_seconds: float = Field(default=1800, gt=0)
    """Loading a target that takes longer counts as hung."""
    watch_seconds: float = Field(default=0.5, gt=0)
    """How often a worker looks whether its job was cancelled or paused."""
    sweep_seconds: float = Field(default=0.5, gt=0)
    """Pause between two sweeps of a reconciler."""
    cancel_grace_seconds: float = Field(default=30, ge=0)
    """After this a cancelled job no longer waits for its workers."""

    backoff_seconds: float = Field(default=2, gt=0)
    """Pause before the second attempt; doubled for each further one."""
    backoff_cap_seconds: float = Field(default=300, gt=0)
    max_crashes: int = Field(default=3, ge=1, le=100)
    """Crashes of a chunk that cannot be split any more, before it is set aside."""
    split_crashes: int = Field(default=2, ge=1, le=100)
    """Crashes of a chunk before it is split."""
    max_errors: int = Field(default=3, ge=1, le=100)

    chunk_seconds: float = Field(default=60, gt=0)
    """Chunks are cut so that they take half of this or more, and no longer."""
    redispatch_seconds: float = Field(default=60, gt=0)
    """A message older than this is taken for lost."""
    dispatch_per_worker: int = Field(default=3, ge=1, le=100)
    """Messages kept outstanding for each resting worker."""

    quarantine_crashes: int = Field(default=5, ge=1)
    """Crashes in a row, on different chunks, before a worker is set aside."""
    quarantine_seconds: float = Field(default=600, gt=0)

    log_format: Literal["text", "json"] = "text"
    """Logs as lines to read, or as JSON objects to collect."""

    retain_days: float | None = Field(default=None, gt=0)
    """Jobs are removed so many days after their end; None keeps them."""
    retain_keys_days: float = Field(default=7, gt=0)
    """How long an idempotency key leads to its job."""
    retain_nodes_days: float = Field(default=7, gt=0)
    """How long a node is listed after its last report."""

    connect_timeout_seconds: int = Field(default=2, ge=1)
    statement_timeout_seconds: float = Field(default=30, gt=0)
    lock_timeout_seconds: float = Field(default=3, gt=0)
    idle_timeout_seconds: float = Field(default=15, gt=0)
    """How long a transaction may stay open without a statement."""
    retry_seconds: float = Field(default=10, ge=0)
    """How long a transaction is tried again while the database is away."""
    pool_size: int = Field(default=2, ge=1, le=100)

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, value: str) -> str:
        value = re.sub(r"^(postgres|postgresql|postgresql\+psycopg)://", f"{_DRIVER}://", value.strip())
        try:
            driver = make_url(value).drivername
        except (ArgumentError, ValueError):
            driver = ""
        if driver != _DRIVER:
            # The value may hold a password, so it is not repeated.
            raise ValueError("must be an address such as postgresql://user:password@host:5432/name")
        return value

    @model_validator(mode="after")
    def _lease_outlives_heartbeats(self) -> ServiceSettings:
        if self.lease_seconds < _BEATS_A_LEASE * self.heartbeat_seconds:
            raise ValueError(
                f"SKIPMAP_LEASE_SECONDS is {self.lease_seconds:g}, less than {_BEATS_A_LEASE} times "
                f"SKIPMAP_HEARTBEAT_SECONDS ({self.heartbeat_seconds:g}): late heartbeats would look like dead workers"
            )
        return self


def read_settings(**given: Any) -> ServiceSettings:
    """Settings from the environment, fields given here first.

    Raises InvalidInput naming the variable that is missing or cannot be used.
    """
    try:
        return ServiceSettings(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = problem["loc"]
        variable = "SKIPMAP_" + str(place[0]).upper() if place else "settings"
        rule = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "missing":
            rule = "required and not set; give an address such as postgresql://user:password@host:5432/name"
        raise InvalidInput(variable, rule) from None


@lru_cache(maxsize=1)
def get_settings() -> ServiceSettings:
    """Read the environment on the first call; later calls give the same object."""
    return read_settings()
