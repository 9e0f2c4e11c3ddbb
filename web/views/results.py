"""The result of a job as pages show it: read whole once, and kept without its thousands of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.greenlets import aside
from api.service import Service
from models.configurations import result_text
from skipmap.maps.gain import expected_speedup
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.found import FoundTable, found_table
from skipmap.profiling.intervals import accept_interval
from skipmap.profiling.records import PromptRecord
from skipmap.profiling.report.summary import Summary, summarise
from skipmap.profiling.report.view import View
from skipmap.skipset import SkipSet
from web.views.kept import Kept

_KEPT_RESULTS = 64

Skip = tuple[int, ...]
Counts = tuple[int, ...]
"""How many layers of each type are skipped: what a step costs depends on nothing else."""


@dataclass(frozen=True)
class Result:
    """A result document without per-prompt rows, whose ``evaluations`` are points that it names, and one of each cost.

    ``summary`` is that of the whole document, and so is ``found``: what the strategy found on its way.
    ``accept_interval``: of dense accept length on the calibration part, None without a verification step. ``costs``:
    cost ratio by how many layers of each type are skipped.
    """

    view: View
    summary: Summary
    accept_interval: tuple[float, float] | None
    costs: Mapping[Counts, float]
    found: FoundTable | None

    def cost_ratio(self, skip: SkipSet) -> float | None:
        """Cost of a step relative to dense; None where none was measured."""
        return self.costs.get(_counts(skip, self.view.target["block_types"]))

    def gain(self, skip: SkipSet, accept_length: float) -> float | None:
        """Expected speed-up of a configuration over dense speculation; None without a cost."""
        return expected_speedup(self.view.dense.accept_length, accept_length, self.cost_ratio(skip))


# What a job found never changes, and ids are not used twice.
_kept: Kept[str, Result] = Kept(_KEPT_RESULTS)


def result_of(service: Service, job_id: str) -> Result | None:
    """The result of a job, None while there is none. It is read whole the first time a process is asked for it."""

    def make() -> Result | None:
        text = service.database.read(result_text, job_id)
        # Others are served meanwhile: there may be 20,000 rows.
        return None if text is None else aside(lambda: make_result(json.loads(text)), len(text))

    return _kept.get(job_id, make)


def read_document(service: Service, job_id: str) -> dict[str, Any] | None:
    """The stored result document of a job, whole; None while there is none."""
    text = service.database.read(result_text, job_id)
    if text is None:
        return None
    document: dict[str, Any] = aside(lambda: json.loads(text), len(text))
    return document


def make_result(document: Mapping[str, Any]) -> Result:
    """A result document as pages show it."""
    whole = View(document, "result")
    prompts = [PromptRecord.from_json(dict(row)) for row in document["dense"].get("per_prompt", ())]
    stepped = any(prompt.steps for prompt in prompts)
    shown = _named(document) | _one_of_each_cost(document)
    rows = [row for row in document["evaluations"] if tuple(row["skip"]) in shown]
    return Result(
        View(without_prompts({**document, "evaluations": rows}), "result"),
        summarise(whole),
        accept_interval(prompts) if stepped else None,
        _costs(document),
        found_table(document),
    )


def _named(document: Mapping[str, Any]) -> set[Skip]:
    points = [skip for skip in document["operating_points"].values() if skip is not None]
    checked = [point["skip"] for point in document["held_out"]["points"]]
    return {tuple(skip) for skip in (document["selected"], *document["front"], *points, *checked)}


def _one_of_each_cost(document: Mapping[str, Any]) -> set[Skip]:
    """A configuration for each number of skipped layers, by type: a feasible one where there is one."""
    types = document["target"]["block_types"]
    found: dict[Counts, tuple[bool, Skip]] = {}
    for row in document["evaluations"]:
        counts, entry = _counts(row["skip"], types), (not row["feasible"], tuple(row["skip"]))
        found[counts] = min(found.get(counts, entry), entry)
    return {skip for _, skip in found.values()}


def _costs(document: Mapping[str, Any]) -> dict[Counts, float]:
    types = document["target"]["block_types"]
    rows = (document["dense"], *document["evaluations"])
    return {_counts(row["skip"], types): row["cost_ratio"] for row in rows if row["cost_ratio"] is not None}


def _counts(skip: Sequence[int] | SkipSet, block_types: Sequence[str]) -> Counts:
    kinds = sorted(set(block_types))
    if len(kinds) == 1:
        return (len(skip),)
    skipped = [block_types[layer] for layer in skip]
    return tuple(skipped.count(kind) for kind in kinds)
