"""Which domain a request belongs to, and with it its skip set: fixed when it is admitted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from skipmap.maps.router import RouterDocument
from skipmap.maps.schema import MapDocument
from skipmap.serving.embedding import Embedder
from skipmap.serving.node.source import MapSource
from skipmap.serving.router import DomainRouter
from skipmap.skipset import SkipSet

_log = logging.getLogger("skipmap.serving.node")


@dataclass(frozen=True)
class Choice:
    """What a request runs with. ``domain``: None when it belongs to none of the map, which is dense.

    ``routed``: whether the router was asked; ``note``: why it runs dense, if that may surprise.
    """

    skip: SkipSet
    domain: str | None = None
    routed: bool = False
    document: MapDocument | None = None
    version: int | None = None
    sequence: int | None = None
    note: str | None = None


class Routing(Protocol):
    """Tells the domain of texts."""

    def domains_of(self, texts: Sequence[str], document: MapDocument | None) -> list[str | None] | None:
        """Domain of each text, None for unknown; None instead of a list where there is no router."""
        ...


class NoRouting:
    """Requests name their domain, or have none."""

    def domains_of(self, texts: Sequence[str], document: MapDocument | None) -> list[str | None] | None:
        """Nothing is known."""
        return None


class NearestCentroid:
    """Routes with the active map's router, or with a document of the operator's.

    ``embedder``: makes the embedder of a name, once. A map's router that cannot be used is said once, and requests are
    dense; one of the operator's raises here what is wrong with it.
    """

    def __init__(self, embedder: Callable[[str], Embedder], fixed: RouterDocument | None = None) -> None:
        self._embedder = embedder
        self._fixed = fixed
        self._lock = Lock()
        self._embedders: dict[str, Embedder] = {}
        self._made_of = fixed
        self._router = self._make(fixed) if fixed else None

    def domains_of(self, texts: Sequence[str], document: MapDocument | None) -> list[str | None] | None:
        """Domain of each text by the map's router."""
        wanted = self._fixed or (document.router if document else None)
        if wanted is None:
            return None
        router = self._router_of(wanted)
        if router is None:
            return None
        try:
            return [found.domain for found in router.route_texts(texts)]
        except Exception:
            _log.exception("the router failed; the request runs dense")
            return [None] * len(texts)

    def _router_of(self, wanted: RouterDocument) -> DomainRouter | None:
        with self._lock:
            if self._made_of is not wanted:
                self._made_of, self._router = wanted, None
                try:
                    self._router = self._make(wanted)
                except Exception as error:
                    _log.warning("the router cannot be used, requests without a domain run dense: %s", error)
            return self._router

    def _make(self, wanted: RouterDocument) -> DomainRouter:
        name = wanted.embedder
        if name not in self._embedders:
            self._embedders[name] = self._embedder(name)
        return DomainRouter(wanted, self._embedders[name])


def choose(source: MapSource, routing: Routing, asked: str | None, texts: Sequence[str]) -> Choice:
    """The skip set for a request that names a domain, or for its texts; several texts must agree on a domain.

    The map is read once: version and skip set are of the same one.
    """
    active = source.current
    document = active.document if active else None
    routed, domain, note = False, asked, None
    if asked is None:
        found = routing.domains_of(texts, document)
        routed, names = found is not None, set(found or ())
        domain = names.pop() if len(names) == 1 else None
        if routed and domain is None:
            several = "the prompts are of several domains"
            note = several if names else "the router knows no domain that is near"
    if document is None:
        domain = None
        note = "no map is in use; everything runs dense"
    elif domain is not None and domain not in document.domains:
        note = f"the map has no domain {domain[:80]!r}; it runs dense"
        domain = None
    return Choice(
        skip=document.skip_for(domain) if document else SkipSet(),
        domain=domain,
        routed=routed,
        document=document,
        version=active.version if active else None,
        sequence=active.sequence if active else None,
        note=note,
    )
