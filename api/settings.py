"""Settings of the API, read from the environment (``SKIPMAP_...``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from skipmap.errors import InvalidInput

MIB = 1 << 20


class ApiSettings(BaseSettings):
    """Where the API listens, and its limits. Every field is set by ``SKIPMAP_`` and its name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8765, ge=0, le=65535)
    api_workers: int = Field(default=2, ge=1, le=64)
    """Processes that answer."""
    api_pool_size: int = Field(default=5, ge=1, le=100)
    """Database connections that a process keeps for reads, and for writes; it opens as many more when needed."""
    silent_seconds: float = Field(default=1.5, gt=0, le=60)
    """A database that says nothing for so long counts as away."""

    body_bytes: int = Field(default=MIB, ge=1024)
    upload_bytes: int = Field(default=16 * MIB, ge=1024)
    upload_line_bytes: int = Field(default=MIB, ge=1024)
    upload_items: int = Field(default=100_000, ge=1)
    """Lines of a file of lines, questions of a table."""
    body_seconds: float = Field(default=30, gt=0, le=3600)
    """How long 64 KiB of a body, or its rest, may take to come."""

    reads_per_minute: int = Field(default=6000, ge=1)
    """GET requests of one token (without one: of one address)."""
    writes_per_minute: int = Field(default=600, ge=1)
    node_requests_per_minute: int = Field(default=60_000, ge=1)
    """Fetches of channels and reports of nodes with one token, which a whole fleet may share."""
    token_cache_seconds: float = Field(default=5, ge=0, le=60)
    """A token is looked up again after so long: how late a revoked one may still be taken."""
    trusted_proxies: int = Field(default=0, ge=0, le=16)
    """Proxies in front of the API. Each adds an address to X-Forwarded-For; the last ones are believed, no others."""
    public_metrics: bool = True
    """Whether /metrics is open to everybody; else it takes a token with jobs:read."""

    event_poll_seconds: float = Field(default=0.5, gt=0, le=60)
    event_streams: int = Field(default=500, ge=1)
    """Event streams that a process serves at a time."""

    signing_key_file: Path | None = None
    """Private keys that sign channels; by default ``signing-key.pem`` in SKIPMAP_HOME."""
    map_validity_hours: float = Field(default=24, ge=0.25, le=24 * 366)
    """How long nodes take an envelope for fresh; it is sealed anew when half of that is over."""
    channel_poll_seconds: float = Field(default=0.25, gt=0, le=60)
    """How often a process looks for moves while requests wait for them."""
    most_nodes: int = Field(default=100_000, ge=1)
    """Serving nodes that are kept in mind; further ones are refused."""
    long_polls: int = Field(default=2500, ge=1)
    """Requests of a process that may wait for moves at a time."""


def read_api_settings(**given: Any) -> ApiSettings:
    """Settings from the environment, fields given here first; raises InvalidInput naming the variable."""
    try:
        return ApiSettings(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        variable = "SKIPMAP_" + str(problem["loc"][0]).upper()
        raise InvalidInput(variable, f"{problem['msg']} (given: {problem['input']!r})") from None
