"""The libraries that only the node needs."""

from __future__ import annotations

from importlib.util import find_spec

from skipmap.errors import ModelFailure

_LIBRARIES = ("prometheus_client", "starlette", "uvicorn")


def require_extra() -> None:
    """Raise ModelFailure, which says what to install, unless the extra ``serve`` is there."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise ModelFailure(
            f"the node needs {', '.join(missing)}, which is not installed; run: pip install 'skipmap[serve]'"
        )
