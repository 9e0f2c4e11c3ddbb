"""Targets: what can be told of one without loading it."""

from __future__ import annotations

from functools import cache

from sqlalchemy.orm import Session

from models.estimates import layers_of
from skipmap.errors import SkipmapError
from skipmap.target.gguf_header import read_header
from skipmap.target.known import KNOWN_TARGETS, installed_files


def number_of_layers(session: Session, target: str) -> int | None:
    """Layers of a target, from an earlier job or, of a known one, from its file; None where neither is there."""
    found = layers_of(session, target)
    if found is not None or target not in KNOWN_TARGETS:
        return found
    try:
        return _layers_in_file(target)
    except SkipmapError:
        # Its packages need not be installed where the API runs.
        return None


@cache
def _layers_in_file(target: str) -> int | None:
    header = read_header(installed_files(target)[0])
    layers = header.metadata.get(f"{header.architecture}.block_count")
    return layers if isinstance(layers, int) else None
