"""Addresses and query parameters of the API's calls."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

from skipmap.client.connection import API
from skipmap.errors import NotFound

Sort = Literal["skip", "metric", "accept_length"]
Order = Literal["asc", "desc"]


def job_path(job_id: str, rest: str = "") -> str:
    """Address of a job, or of something of it."""
    return f"{API}/jobs/{_segment(job_id, 'job')}{rest}"


def set_path(set_id: str, rest: str = "") -> str:
    """Address of a calibration set, or of something of it."""
    return f"{API}/calibration-sets/{_segment(set_id, 'calibration set')}{rest}"


def map_path(name: str, rest: str = "") -> str:
    """Address of a map, or of something of it."""
    return f"{API}/maps/{_segment(name, 'map')}{rest}"


def channel_path(name: str, channel: str, rest: str = "") -> str:
    """Address of a map's channel, or of something of it."""
    return map_path(name, f"/channels/{_segment(channel, 'channel')}{rest}")


def node_path(node: str, rest: str = "") -> str:
    """Address of a node, or of something of it."""
    return f"{API}/nodes/{_segment(node, 'node')}{rest}"


def user_path(user_id: str) -> str:
    """Address of a user."""
    return f"{API}/users/{_segment(user_id, 'user')}"


def evaluation_params(sort: Sort, order: Order, level: int | None, feasible: bool | None) -> dict[str, Any]:
    """Which configurations, in which order."""
    return {"sort": sort, "order": order, "level": level, "feasible": flag(feasible)}


def flag(value: bool | None) -> str | None:
    """A truth value as a query parameter; None leaves it out."""
    return None if value is None else str(value).lower()


def _segment(text: str, what: str) -> str:
    """An id as one part of a path, whatever it holds."""
    if not text.strip("."):
        raise NotFound(f"no {what} {text!r}")
    return quote(text, safe="")
