"""Canonical JSON text and digests of documents."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN; the same value gives the same text everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Sha256 (hex) of the canonical text of a JSON value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
