"""Words that several pages use: what figures mean, what levels and events are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipmap.profiling.records import AcceptMeasure
from web.filters import plural
from web.views.strategies import level_of_search

ACCEPT_LENGTH = "tokens emitted a verification step, 1.0 = plain decoding"
"""What accept length is; stands at every figure that shows it."""

_MEASURES: Mapping[AcceptMeasure, tuple[str, str]] = {
    "tokens_per_step": ("Accept length", ACCEPT_LENGTH),
    "accepted_drafts": (
        "Accepted drafts",
        "accepted draft tokens a verification step, the token that every step adds not counted; 0 = plain decoding",
    ),
}

_LEVELS = {
    "dense": ("Dense", "the target with all its layers: what every floor refers to"),
    "cost": ("Cost of a step", "verification steps timed with fewer layers"),
    "held_out": ("Held-out check", "operating points beside dense, on prompts that the search never saw"),
    "result": ("Result", "everything put together in one document"),
}

_OF_SEARCH = {"single": "Single layers", "level": "Sets of layers", "rank": "Ranking layers"}
"""What such a level does depends on the strategy."""

_STATES = {
    "running": "The job runs",
    "pausing": "The job is asked to pause",
    "paused": "The job is paused",
    "cancelling": "The job is asked to stop",
    "cancelled": "The job is cancelled",
    "succeeded": "The job has succeeded",
    "failed": "The job has failed",
}


def measure_name(measure: AcceptMeasure) -> str:
    """What the figure of the accept floor is called."""
    return _MEASURES[measure][0]


def measure_meaning(measure: AcceptMeasure) -> str:
    """What the figure of the accept floor counts."""
    return _MEASURES[measure][1]


def level_title(kind: str, depth: int | None) -> str:
    """What a level is called."""
    if kind == "level":
        return f"Sets of {depth}"
    if kind == "rank" and depth is not None and depth > 1:
        return f"{kind_title(kind)} for sets of {depth}"
    return kind_title(kind)


def kind_title(kind: str) -> str:
    """What work of a level's kind is called, whatever its size."""
    return _OF_SEARCH[kind] if kind in _OF_SEARCH else _LEVELS[kind][0]


def level_meaning(kind: str, strategy: str) -> str:
    """What a level does in a search of this strategy."""
    return level_of_search(kind, strategy) if kind in _OF_SEARCH else _LEVELS[kind][1]


def event_text(kind: str, payload: Mapping[str, Any]) -> str:
    """An event of a job in words."""
    if kind == "job":
        if "priority" in payload:
            return f"Priority is now {payload['priority']}"
        return _STATES.get(payload.get("state", ""), "The job has changed")
    if kind == "level":
        return _level_event(payload)
    return _chunk_event(payload)


def _level_event(payload: Mapping[str, Any]) -> str:
    # Older events do not tell the depth; levels of those jobs are numbered by it.
    title = level_title(payload["kind"], payload.get("depth", payload["idx"]))
    told = {"running": "begins", "done": "is done", "failed": "has failed", "cancelled": "was stopped"}
    size = f" ({plural(payload['size'], 'unit')})" if "size" in payload else ""
    return f"{title} {told.get(payload['state'], 'has changed')}{size}"


def _chunk_event(payload: Mapping[str, Any]) -> str:
    what = payload.get("what")
    if what == "crashed":
        return f"The process of worker {payload['owner']} ended while it had work; that is done again"
    if what == "split":
        return f"Work that ended its process was split into {payload['parts']} parts"
    if what == "failed":
        units = payload.get("units", [])
        return f"Work was set aside: {', '.join(units[:4])}{' and more' if len(units) > 4 else ''}"
    return "Work has changed"
