"""Settings of one worker process, read from the environment (``SKIPMAP_...``)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from skipmap.errors import InvalidInput


class WorkerSettings(BaseSettings):
    """Which place on this host a worker takes, and what it keeps loaded."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """SKIPMAP_DEVICE: ``auto`` takes the first visible GPU, or else the CPU."""
    slot: str = Field(default="0", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """SKIPMAP_SLOT: tells the workers of a host apart; a GPU's own id is used where there is one."""
    loaded_targets: int = Field(default=1, ge=1, le=64)
    """SKIPMAP_LOADED_TARGETS: how many targets stay in memory between chunks."""


def read_worker_settings() -> WorkerSettings:
    """Read the environment; raises InvalidInput naming the variable that cannot be used."""
    try:
        return WorkerSettings()
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        variable = "SKIPMAP_" + str(problem["loc"][0]).upper()
        raise InvalidInput(variable, f"{problem['msg']} (given: {problem['input']!r})") from None
