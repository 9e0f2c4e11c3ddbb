"""Which draft method a request gets: the operator's, else the one that its map was measured with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from skipmap.canonical import canonical_json
from skipmap.drafts.base import DraftMethod, Resources
from skipmap.drafts.registry import check_params, make_draft
from skipmap.errors import SkipmapError
from skipmap.maps.schema import MapDocument, MapDraft

PLAIN = "none"
DEFAULT = "sam"

_log = logging.getLogger("skipmap.serving.node")


@dataclass(frozen=True)
class NamedDraft:
    """A draft method; None is plain decoding."""

    name: str
    method: DraftMethod | None


class Drafts:
    """Draft methods, each made once; their state is fresh for every answer.

    ``method`` and ``params``: the operator's choice, None for the map's. Raises InvalidInput for a bad choice.
    """

    def __init__(
        self, resources: Resources, method: str | None = None, params: Mapping[str, Any] | None = None
    ) -> None:
        self._resources = resources
        self._lock = Lock()
        self._made: dict[str, NamedDraft | None] = {}
        self.is_chosen = method is not None
        self.usual = self._make(method or DEFAULT, params or {})

    def for_map(self, document: MapDocument | None) -> NamedDraft:
        """The draft for answers with this map's skip sets."""
        if self.is_chosen or document is None:
            return self.usual
        return self._of(document.draft) or self.usual

    def remark(self, document: MapDocument | None) -> str | None:
        """What is to be said when a map's skip sets were measured with another draft than answers get."""
        if document is None:
            return None
        wanted, used = document.draft, self.for_map(document)
        if used.name != wanted.method:
            return (
                f"the skip sets of map {document.name} were calibrated for the draft {wanted.method}; "
                f"this node drafts with {used.name}, so accept lengths will differ"
            )
        if not self._has_params(used, wanted):
            return f"the draft {used.name} has other parameters here than in map {document.name}"
        fingerprint = used.method.fingerprint if used.method else None
        if wanted.fingerprint != fingerprint:
            return f"the files of the draft {used.name} are not those that map {document.name} was made with"
        return None

    @staticmethod
    def _has_params(used: NamedDraft, wanted: MapDraft) -> bool:
        try:
            return used.method is None or used.method.params == check_params(wanted.method, wanted.params)
        except SkipmapError:
            return False

    def _of(self, wanted: MapDraft) -> NamedDraft | None:
        key = canonical_json([wanted.method, wanted.params])
        with self._lock:
            if key not in self._made:
                try:
                    self._made[key] = self._make(wanted.method, wanted.params)
                except SkipmapError as error:
                    _log.warning(
                        "the map's draft cannot be used: %s; drafting with %s", error, self.usual.name
                    )
                    self._made[key] = None
            return self._made[key]

    def _make(self, name: str, params: Mapping[str, Any]) -> NamedDraft:
        if name == PLAIN:
            return NamedDraft(PLAIN, None)
        return NamedDraft(name, make_draft(name, params, self._resources))
