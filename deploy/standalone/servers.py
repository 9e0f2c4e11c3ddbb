"""The two servers a stack needs: those that the environment names, else our own below the home folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deploy.standalone.postgres import PostgresServer
from deploy.standalone.valkey import ValkeyServer

DATABASE_VARIABLE = "SKIPMAP_DATABASE_URL"
BROKER_VARIABLE = "SKIPMAP_BROKER_URL"


class Service(Protocol):
    """A server as its clients see it."""

    @property
    def url(self) -> str:
        """The address."""

    @property
    def is_running(self) -> bool:
        """Whether it runs, as far as that is known here."""

    def start(self) -> None:
        """Start it if it is ours to start."""

    def stop(self) -> None:
        """Stop it if it is ours to stop."""


@dataclass(frozen=True)
class ExternalService:
    """A server that somebody else runs: it is neither started nor stopped from here."""

    url: str
    is_running: bool = True

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


def database(home: Path) -> Service:
    """PostgreSQL at SKIPMAP_DATABASE_URL, or else our own on ``<home>/postgres``."""
    url = os.environ.get(DATABASE_VARIABLE)
    return ExternalService(url) if url else PostgresServer(home / "postgres")


def broker(home: Path) -> Service:
    """Valkey or Redis at SKIPMAP_BROKER_URL, or else our own on ``<home>/valkey``."""
    url = os.environ.get(BROKER_VARIABLE)
    return ExternalService(url) if url else ValkeyServer(home / "valkey")
