"""Which domain a request belongs to: the one that it names, else the nearest centroid, if that is near enough.

A request that is near nothing belongs to no domain and runs dense. A router holds nothing that changes, so threads
share it; a new map gets a new router with the same embedder.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skipmap.errors import InvalidInput
from skipmap.maps.router import UNKNOWN, RouterDocument
from skipmap.serving.embedding import Embedder, Vectors

Reason = Literal["named", "name_unknown", "near", "too_far", "no_text", "no_router"]

# What rounding of centroids and single precision can move a distance by.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class RoutedDomain:
    """Where a request goes. ``domain``: None means unknown, which is dense.

    ``nearest``, ``distance`` (cosine, 0 to 2) and ``threshold`` are of the nearest domain, None where no text was
    looked at.
    """

    domain: str | None
    reason: Reason
    nearest: str | None = None
    distance: float | None = None
    threshold: float | None = None

    @property
    def label(self) -> str:
        """The domain, or ``unknown``."""
        return UNKNOWN if self.domain is None else self.domain


class DomainRouter:
    """Routes requests to the domains of a map. Safe to use from several threads."""

    def __init__(
        self,
        document: RouterDocument | None,
        embedder: Embedder | None,
        domains: Collection[str] | None = None,
    ) -> None:
        """``domains``: names that a request may give, those of the map; default: the document's.

        Without a document only named domains are told apart. Raises InvalidInput when the embedder is not the one
        that the document was made with.
        """
        self._domains = frozenset(domains if domains is not None else document.domains if document else ())
        self._embedder = embedder
        self._centroids: Vectors | None = None
        self._owners: list[tuple[str, float]] = []
        if document is not None:
            _check(document, embedder)
            rows: list[tuple[float, ...]] = []
            for name, domain in sorted(document.domains.items()):
                rows += domain.centroids
                self._owners += [(name, domain.threshold)] * len(domain.centroids)
            self._centroids = _directions(np.array(rows, np.float32))

    def route(self, text: str, domain: str | None = None) -> RoutedDomain:
        """Domain of a request. ``domain``: the one that it names; then ``text`` is not looked at."""
        if domain is not None:
            if domain in self._domains:
                return RoutedDomain(domain, "named")
            return RoutedDomain(None, "name_unknown")
        return self.route_texts([text])[0]

    def route_texts(self, texts: Sequence[str]) -> list[RoutedDomain]:
        """Domain of each text, as ``route`` gives it one by one."""
        if self._centroids is None or self._embedder is None:
            return [RoutedDomain(None, "no_router")] * len(texts)
        return [self._of(vector, self._centroids) for vector in self._embedder.embed(texts)]

    def _of(self, vector: Vectors, centroids: Vectors) -> RoutedDomain:
        length = float(np.linalg.norm(vector))
        if not 0 < length < math.inf:
            return RoutedDomain(None, "no_text")
        distances = 1 - (centroids @ vector) / length
        nearest = int(distances.argmin())
        distance, (name, threshold) = float(distances[nearest]), self._owners[nearest]
        is_near = distance <= threshold + _ROUNDING
        return RoutedDomain(
            name if is_near else None, "near" if is_near else "too_far", name, distance, threshold
        )


def _check(document: RouterDocument, embedder: Embedder | None) -> None:
    if embedder is None or embedder.name != document.embedder:
        given = "none" if embedder is None else embedder.name
        raise InvalidInput("router.embedder", f"the router needs {document.embedder!r}, and {given} is given")
    known = (document.target_fingerprint, embedder.target_fingerprint)
    if None not in known and known[0] != known[1]:
        raise InvalidInput(
            "router.target_fingerprint",
            f"the router is of the target {known[0]}, and the embedder of {known[1]}; train it on this target",
        )
    if embedder.dimension != document.dimension:
        raise InvalidInput(
            "router.dimension",
            f"the router has {document.dimension} and the embedder {embedder.dimension}; train it again",
        )


def _directions(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (lengths > 0).all() or not np.isfinite(lengths).all():
        raise InvalidInput(
            "router.domains", "a centroid is zero, which is near nothing; train the router again"
        )
    return np.asarray(rows / lengths, np.float32)
