"""Canonical JSON text and digests of documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_ENTRIES_A_PIECE = 1000


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN; the same value gives the same text everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Sha256 (hex) of the canonical text of a JSON value."""
    found = hashlib.sha256()
    for piece in _pieces(value):
        found.update(piece.encode())
    return found.hexdigest()


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


def _pieces(value: Any) -> Iterator[str]:
    """The canonical text cut at the entries of long lists: the whole of it at once would hold up other threads."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else '{'}{canonical_json(key)}:"
            yield from _pieces(value[key])
        yield "}" if value else "{}"
    elif isinstance(value, list) and len(value) > _ENTRIES_A_PIECE:
        for start in range(0, len(value), _ENTRIES_A_PIECE):
            yield "," if start else "["
            yield canonical_json(value[start : start + _ENTRIES_A_PIECE])[1:-1]
        yield "]"
    else:
        yield canonical_json(value)
