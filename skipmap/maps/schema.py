"""The map document ``skipmap.map/1`` as a typed value, and its published JSON Schema.

``python -m skipmap.maps.schema`` prints the JSON Schema. Fields that a later minor version adds are ignored when an
older reader meets them; what a reader needs to act rightly never hides in such a field.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from skipmap.maps.router import Name, RouterDocument
from skipmap.maps.strict import Section, read_section
from skipmap.skipset import SkipSet

SCHEMA: Literal["skipmap.map/1"] = "skipmap.map/1"
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_LAYERS = 10_000
MAX_REASON_CHARACTERS = 2000

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})")


def _ascending(blocks: tuple[int, ...]) -> tuple[int, ...]:
    if any(after <= before for before, after in pairwise(blocks)):
        raise ValueError("block indices must ascend, each once")
    return blocks


def moment(text: str) -> datetime:
    """A time with its offset from RFC 3339 text; raises ValueError for anything else."""
    if not _MOMENT.fullmatch(text):
        raise ValueError("must be a date and time with its offset, as in 2026-01-31T12:00:00Z")
    return datetime.fromisoformat(text.upper())


def _moment_text(text: str) -> str:
    moment(text)
    return text


Blocks = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=MAX_LAYERS)], ...],
    AfterValidator(_ascending),
    Field(json_schema_extra={"uniqueItems": True}),
]
MomentText = Annotated[str, AfterValidator(_moment_text), Field(json_schema_extra={"format": "date-time"})]
ParamValue = str | int | float | bool | None
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARACTERS)]


class Pair(Section):
    """A figure of the dense and of the sparse target."""

    dense: float
    sparse: float


class MetricPair(Pair):
    """The task metric of both."""

    name: str = Field(min_length=1)


class MapTarget(Section):
    """The model that the map is of."""

    id: str = Field(min_length=1)
    revision: str | None = None
    fingerprint: str = Field(min_length=1)
    num_layers: int = Field(ge=1, le=MAX_LAYERS)


class MapDraft(Section):
    """The draft method that the figures were measured with.

    ``lossy``: its acceptance rule changes answers, also where nothing is skipped; not written where it is exact.
    """

    method: str = Field(min_length=1)
    params: dict[str, ParamValue] = Field(default_factory=dict)
    fingerprint: str | None = None
    lossy: bool = False


class HeldOutFigures(Section):
    """What prompts that the search never saw say. ``intervals``: name -> [low, high], 95 %.

    ``certain``: whether a point that passes the gate does so beyond doubt; null in maps of earlier releases.
    """

    n: int = Field(ge=0)
    accept_length: Pair
    metric: Pair
    speedup: float | None
    intervals: dict[str, tuple[float, float]]
    passes_gate: bool
    certain: bool | None = None


class PointFigures(Section):
    """An operating point with its figures. ``speedup``: expected from accept lengths and cost."""

    skip: Blocks
    sparsity: float = Field(ge=0, lt=1)
    accept_length: Pair
    metric: MetricPair
    cost_ratio: float | None
    speedup: float | None
    held_out: HeldOutFigures | None

    @cached_property
    def skip_set(self) -> SkipSet:
        """The blocks to skip."""
        return SkipSet.of(self.skip)


class DomainEntry(PointFigures):
    """What a domain skips, why, and the other points of the Pareto front.

    ``result``: digest of the search it comes from. ``override``: why it stands here although the held-out check
    refuses it.
    """

    alternatives: tuple[PointFigures, ...] = ()
    reason: Reason
    result: str
    job: str | None = None
    override: Reason | None = None


class Fallback(Section):
    """What every other prompt gets: dense."""

    skip: Annotated[tuple[int, ...], Field(max_length=0)]


class MapDocument(Section):
    """A domain map: per domain the blocks that the verifier may skip.

    ``digest``: of a local file that nobody signed, over the canonical text of the rest; a published version has its
    digest outside.
    """

    schema_id: Literal["skipmap.map/1"] = Field(alias="schema")
    name: Name
    version: Annotated[int, Field(ge=1, lt=2**31)] | None
    created_at: MomentText
    target: MapTarget
    draft: MapDraft
    domains: dict[Name, DomainEntry] = Field(min_length=1)
    fallback: Fallback
    router: RouterDocument | None = None
    digest: str | None = None

    def skip_for(self, domain: str | None) -> SkipSet:
        """The blocks that a domain skips; dense for None and for a domain that the map does not have."""
        entry = None if domain is None else self.domains.get(domain)
        return SkipSet() if entry is None else entry.skip_set

    @model_validator(mode="after")
    def _fits_target(self) -> MapDocument:
        layers = self.target.num_layers
        for name, entry in self.domains.items():
            for point in (entry, *entry.alternatives):
                if point.skip and point.skip[-1] >= layers:
                    raise ValueError(
                        f"domain {name!r} skips block {point.skip[-1]}; the target has blocks 0..{layers - 1}"
                    )
                if len(point.skip) >= layers:
                    raise ValueError(f"domain {name!r} skips all {layers} blocks; at least one must run")
        router = self.router
        if router and router.target_fingerprint not in (None, self.target.fingerprint):
            raise ValueError(
                "the router was trained with the embeddings of another model (router.target_fingerprint)"
            )
        return self


def read_map(data: bytes, field: str = "map") -> MapDocument:
    """Read a map document; raises InvalidInput naming field, value and rule.

    Checks everything but the digest of a local file, which ``skipmap.maps.document.local_digest`` tells.
    """
    return read_section(MapDocument, data, field, MAX_DOCUMENT_BYTES)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the map document, as far as JSON Schema can say it."""
    schema = MapDocument.model_json_schema(by_alias=True)
    _close_names(schema)
    return {"$schema": _DIALECT, **schema}


def _close_names(schema: Any) -> None:
    """Say that keys which are names must be good names: pydantic gives their pattern and lets others pass."""
    if isinstance(schema, dict):
        if "patternProperties" in schema:
            schema["additionalProperties"] = False
        for inner in schema.values():
            _close_names(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close_names(inner)


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
