"""What a serving process needs: a client that pulls maps, a controller that applies them, a router of prompts.

Importing this package loads none of them; each is loaded when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipmap.serving.controller import SkipController as SkipController
    from skipmap.serving.map_client import MapClient as MapClient
    from skipmap.serving.router import DomainRouter as DomainRouter

_HOMES = {
    "DomainRouter": "skipmap.serving.router",
    "MapClient": "skipmap.serving.map_client",
    "SkipController": "skipmap.serving.controller",
}

__all__ = ["DomainRouter", "MapClient", "SkipController"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
