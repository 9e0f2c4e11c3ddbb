"""One exception root; every message names what was given and the way out.

The exit codes are those of the command line: 2 bad input, 3 not found, 4 refused by a server, 5 server or model
failure, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable


class SkipmapError(Exception):
    """Base of all errors raised by Skipmap."""

    exit_code = 5


class InvalidInput(SkipmapError):
    """A value cannot be used: names the field, what was given and what is allowed."""

    exit_code = 2

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


class NotFound(SkipmapError):
    """A named thing (file, model, domain of a map) does not exist."""

    exit_code = 3


class Refused(SkipmapError):
    """A server or a gate refused a valid request."""

    exit_code = 4


class ModelFailure(SkipmapError):
    """A model, disk or server failed while doing valid work."""

    exit_code = 5


class Interrupted(SkipmapError):
    """Work was stopped on request; finished groups are kept and can be resumed."""

    exit_code = 130


def choices(names: Iterable[str]) -> str:
    """Format allowed names for an error message."""
    return ", ".join(sorted(names))
