"""A result document as the report reads it: typed, with floors and looked-up rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skipmap.errors import InvalidInput
from skipmap.maps.gain import expected_speedup
from skipmap.maps.verdict import Verdict, verdict_of_result
from skipmap.metrics.registry import metric_help
from skipmap.profiling.documents import SCHEMA
from skipmap.profiling.drafting import Drafting, drafting
from skipmap.profiling.pareto import Score
from skipmap.profiling.report.figures import relative
from skipmap.profiling.search import DENSE, STRATEGIES, Floors, floors, strategy_of
from skipmap.profiling.strategies.base import Strategy
from skipmap.skipset import SkipSet

_MEASURES = {
    "tokens_per_step": (
        "accept_length",
        "tokens per verification step, bonus token included; plain decoding = 1",
    ),
    "accepted_drafts": (
        "accepted_drafts",
        "accepted draft tokens per verification step, bonus token not included",
    ),
}


@dataclass(frozen=True)
class Row:
    """One configuration on the calibration part. ``accept``: by the measure that the job's floor uses."""

    skip: SkipSet
    accept: float
    accept_length: float
    metric: float
    cost_ratio: float | None
    feasible: bool
    admitted: bool
    """Whether it was one to choose from: the same, unless the strategy looks at one figure alone."""
    evaluator: str
    batch_split: bool
    drafting: Drafting | None

    @property
    def level(self) -> int:
        """Number of skipped blocks."""
        return len(self.skip)

    @property
    def score(self) -> Score:
        """The pair that the floors look at."""
        return Score(self.accept, self.metric)


@dataclass(frozen=True)
class HeldOut:
    """One operating point on held-out prompts; dense has neither speed-up nor intervals."""

    skip: SkipSet
    accept: float
    metric: float
    tokens_per_second: float
    speedup: float | None
    intervals: Mapping[str, tuple[float, float]]
    prompts: tuple[Mapping[str, Any], ...]
    drafting: Drafting | None


class View:
    """One result. ``key`` makes element ids of its section unique on the page."""

    def __init__(self, document: Mapping[str, Any], key: str) -> None:
        """Raises InvalidInput when the document is no result."""
        if document.get("schema") != SCHEMA:
            raise InvalidInput("result", f"schema is {document.get('schema')!r}, not {SCHEMA!r}")
        self.document, self.key = document, key
        self.spec: Mapping[str, Any] = document["spec"]
        self.search: Mapping[str, Any] = self.spec["search"]
        name = self.search.get("strategy", "tss")
        if name not in STRATEGIES:
            raise InvalidInput("result", f"strategy {name!r} is unknown to this version")
        self.strategy: Strategy = strategy_of(name)
        self.domain: str = self.spec["domain"]["name"]
        self.target: Mapping[str, Any] = document["target"]
        self.draft: Mapping[str, Any] = document["draft"]
        self.metric_name: str = document["metric"]["name"]
        self.num_layers: int = self.target["num_layers"]
        self.accept_key, self.accept_definition = _MEASURES[self.search["accept_measure"]]
        self.dense = self._row(document["dense"])
        self.limits: Floors = floors(self.dense.score, self.search["eps"], self.search["tau"])
        self.rows = tuple(self._row(row) for row in document["evaluations"])
        self.pool = frozenset(document["pool"])
        self.pool_cut = frozenset(document["budget"]["pool_cut"])
        self.selected = SkipSet.of(document["selected"])
        self.front = frozenset(SkipSet.of(skip) for skip in document["front"])
        self.points = {
            name: None if skip is None else SkipSet.of(skip)
            for name, skip in document["operating_points"].items()
        }

    @property
    def choice(self) -> str:
        """What configurations are called that points are chosen from."""
        return "feasible" if self.strategy.sight.is_whole else "admitted"

    @property
    def accept_name(self) -> str:
        """The measure's name in prose."""
        return self.accept_key.replace("_", " ")

    @property
    def metric_meaning(self) -> str:
        """What the metric measures, as its registry says; empty for one that is not installed here."""
        return metric_help().get(self.metric_name, "")

    @property
    def block_types(self) -> tuple[str, ...]:
        """Type of each block in words, as in ``sliding``."""
        return tuple(kind.removesuffix("_attention") for kind in self.target["block_types"])

    @property
    def is_hybrid(self) -> bool:
        """Whether blocks differ in type."""
        return len(set(self.block_types)) > 1

    @cached_property
    def by_skip(self) -> Mapping[SkipSet, Row]:
        """Rows by skip set, dense too."""
        return {DENSE: self.dense} | {row.skip: row for row in self.rows}

    @cached_property
    def feasible(self) -> tuple[Row, ...]:
        """Configurations that keep both floors."""
        return tuple(row for row in self.rows if row.feasible)

    @cached_property
    def held_out_dense(self) -> HeldOut | None:
        """Dense on held-out prompts, if any point was checked."""
        part = self.document["held_out"]["dense"]
        return self._held_out(part) if part else None

    @cached_property
    def held_out(self) -> tuple[HeldOut, ...]:
        """Points that were checked on held-out prompts."""
        return tuple(self._held_out(part) for part in self.document["held_out"]["points"])

    @property
    def not_checked(self) -> tuple[SkipSet, ...]:
        """Points that the bound on held-out points left out."""
        return tuple(SkipSet.of(skip) for skip in self.document["held_out"]["not_checked"])

    def held_out_of(self, skip: SkipSet) -> HeldOut | None:
        """The held-out figures of a configuration, if it was checked."""
        return next((point for point in self.held_out if point.skip == skip), None)

    def verdict(self, skip: SkipSet) -> Verdict:
        """What held-out prompts say of a configuration."""
        return verdict_of_result(self.document, skip)

    def gain(self, row: Row) -> float | None:
        """Expected speed-up over dense speculation: accept length ratio over cost ratio."""
        return expected_speedup(self.dense.accept_length, row.accept_length, row.cost_ratio)

    def accept_change(self, row: Row) -> float | None:
        """Relative change of the accept measure against dense."""
        return relative(row.accept, self.dense.accept)

    def metric_change(self, row: Row) -> float | None:
        """Relative change of the metric against dense."""
        return relative(row.metric, self.dense.metric)

    def missed_floors(self, row: Row) -> tuple[str, ...]:
        """Names of the floors that a row misses."""
        missed = []
        if not self.limits.admits_accept(row.score):
            missed.append(self.accept_name)
        if not self.limits.admits_metric(row.score):
            missed.append(self.metric_name)
        return tuple(missed)

    def _row(self, data: Mapping[str, Any]) -> Row:
        return Row(
            SkipSet.of(data["skip"]),
            data[self.accept_key],
            data["accept_length"],
            data["metric"],
            data["cost_ratio"],
            data["feasible"],
            data.get("admitted", data["feasible"]),
            data["evaluator"],
            data.get("batch_split", False),
            drafting(data),
        )

    def _held_out(self, data: Mapping[str, Any]) -> HeldOut:
        return HeldOut(
            SkipSet.of(data["skip"]),
            data[self.accept_key],
            data["metric"],
            data["tokens_per_second"],
            data.get("speedup"),
            {name: (ends[0], ends[1]) for name, ends in data.get("intervals", {}).items()},
            tuple(data.get("per_prompt", ())),
            drafting(data),
        )
