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


def bad_text(data: Any) -> str | None:
    """Where plain data first holds text that cannot be stored (lone surrogate, NUL), as in ``a.b``; None if nowhere."""
    keys = _way_to_bad_text(data)
    if keys is None:
        return None
    place = "".join(f".{key}" for key in reversed(keys))
    # Empty keys, and dots that a key begins with, tell nothing at the front.
    return place[min(len(keys), len(place) - len(place.lstrip("."))) :]


def _way_to_bad_text(data: Any) -> list[str] | None:
    """Keys from the innermost to the outermost: none are put together before there is something to tell."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, str):
        return None if _can_be_stored(data) else []
    if isinstance(data, Mapping):
        if not all(_can_be_stored(key) for key in data if isinstance(key, str)):
            return []
        parts = data.items()
    elif isinstance(data, list | tuple):
        parts = enumerate(data)
    for key, value in parts:
        found = _way_to_bad_text(value)
        if found is not None:
            found.append(str(key))
            return found
    return None


def _can_be_stored(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        # What UTF-8 lacks are the lone surrogates.
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
