"""Canonical JSON text and digests of documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN; the same value gives the same text everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Sha256 (hex) of the canonical text of a JSON value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def bad_text(data: Any, place: str = "") -> str | None:
    """Where plain data first holds text that cannot be stored (lone surrogate, NUL), as in ``a.b``; None if nowhere."""
    if isinstance(data, str):
        return place if "\0" in data or any("\ud800" <= c <= "\udfff" for c in data) else None
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, Mapping):
        parts = data.items()
        key = next((str(k) for k in data if isinstance(k, str) and bad_text(k) is not None), None)
        if key is not None:
            return place
    elif isinstance(data, list | tuple):
        parts = enumerate(data)
    found = (bad_text(value, f"{place}.{key}".removeprefix(".")) for key, value in parts)
    return next((where for where in found if where is not None), None)
