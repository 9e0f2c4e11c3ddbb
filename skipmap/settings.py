"""Settings read once from the environment (``SKIPMAP_...``)."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from skipmap.errors import InvalidInput


def _default_cache(values: dict[str, Any]) -> Path:
    # Validation of ``home`` may have failed; that problem is then the one reported.
    home: Path = values.get("home", Path())
    return home / "cache"


DEFAULT_HOME = Path("~/.skipmap")


class Settings(BaseSettings):
    """Where Skipmap keeps its files and which local models it may read."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    home: Path = Field(default=DEFAULT_HOME, validate_default=True)
    """SKIPMAP_HOME: state that must survive, such as tokens and databases."""

    cache: Path = Field(default_factory=_default_cache)
    """SKIPMAP_CACHE: files that can be made again, such as converted models; default ``<home>/cache``."""

    model_roots: Annotated[tuple[Path, ...], NoDecode] = ()
    """SKIPMAP_MODEL_ROOTS: folders that local models must lie in, separated as in PATH; empty allows any."""

    @field_validator("model_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part for part in value.split(os.pathsep) if part.strip())
        return value

    @field_validator("home", "cache")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return _absolute_path(value)

    @field_validator("model_roots")
    @classmethod
    def _resolved(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_absolute_path(root).resolve() for root in value)


def _absolute_path(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"{error}; give an absolute path") from error


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Read the environment on the first call; later calls give the same object.

    Raises InvalidInput naming the variable that cannot be used.
    """
    try:
        return Settings()
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        variable = "SKIPMAP_" + str(problem["loc"][0]).upper()
        rule = problem["msg"].removeprefix("Value error, ")
        raise InvalidInput(variable, f"{rule} (given: {problem['input']!r})") from None
