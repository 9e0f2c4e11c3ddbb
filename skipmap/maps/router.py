"""The part of a map that tells domains apart: centroids of prompt embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from skipmap.canonical import canonical_json
from skipmap.errors import InvalidInput
from skipmap.maps.strict import Section, read_section

NAME_PATTERN = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""Name of a map, a channel or a domain."""

UNKNOWN = "unknown"
"""Label of prompts that belong to no domain."""

MAX_DIMENSION = 65536
MAX_CENTROIDS = 64
MAX_ROUTER_BYTES = 4 * 1024 * 1024
Count = Annotated[int, Field(ge=0)]


class RouterDomain(Section):
    """Centroids of ``n`` prompts of a domain. ``threshold``: largest distance that still belongs."""

    centroids: tuple[tuple[float, ...], ...] = Field(min_length=1, max_length=MAX_CENTROIDS)
    threshold: float = Field(ge=0)
    n: int = Field(ge=1)


class Confusion(Section):
    """How held-out prompts are routed: true label -> predicted label -> prompts. Missing counts are 0."""

    labels: tuple[Name, ...]
    counts: dict[Name, dict[Name, Count]]

    @model_validator(mode="after")
    def _known_labels(self) -> Confusion:
        if UNKNOWN not in self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError(f"labels must be unique and hold {UNKNOWN!r}")
        named = {*self.counts, *(label for row in self.counts.values() for label in row)}
        stray = sorted(named - set(self.labels))
        if stray:
            raise ValueError(f"counts name {', '.join(stray)}, which labels do not list")
        return self


class RouterDocument(Section):
    """Centroids per domain. ``embedder``: what turns a prompt into ``dimension`` numbers.

    ``target_fingerprint``: the model whose embeddings they are; None for an embedder of its own.
    """

    embedder: str = Field(min_length=1, max_length=200)
    target_fingerprint: str | None = None
    dimension: int = Field(ge=1, le=MAX_DIMENSION)
    domains: dict[Name, RouterDomain] = Field(min_length=1)
    confusion: Confusion | None = None

    @model_validator(mode="after")
    def _fits(self) -> RouterDocument:
        if UNKNOWN in self.domains:
            raise ValueError(f"no domain may be called {UNKNOWN!r}")
        for name, domain in self.domains.items():
            for centroid in domain.centroids:
                if len(centroid) != self.dimension:
                    raise ValueError(
                        f"a centroid of {name} has {len(centroid)} numbers; dimension is {self.dimension}"
                    )
        return self

    def to_json(self) -> dict[str, Any]:
        """Plain values for a document."""
        return self.model_dump(mode="json")


def read_router(data: bytes | Mapping[str, Any], field: str = "router") -> RouterDocument:
    """Read a router document from JSON bytes or plain values; raises InvalidInput naming field, value and rule."""
    if not isinstance(data, bytes):
        try:
            data = canonical_json(data).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInput(field, f"is no JSON value: {error}") from None
    return read_section(RouterDocument, data, field, MAX_ROUTER_BYTES)
