"""Jobs side by side: accept length, selected sets, speed and quality, and what makes them hard to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from models.jobs import Job
from skipmap.maps.verdict import Verdict
from skipmap.profiling.report.view import Row, View
from web.filters import short_id
from web.views.held_out import CheckedPoint, Interval, checked_points, gate_mark
from web.views.jobs import name_of
from web.views.results import Result

_IDS_IN_NAMES = 3
Address = Callable[[str], str]
"""The page of a job, by its id."""


@dataclass(frozen=True)
class ComparedJob:
    """One job that has succeeded. ``series``: what its values are called in charts, next to those of its domain.

    ``chosen``: the selected configuration, None when dense is; ``checked``: that on held-out prompts.
    """

    job: Job
    result: Result
    series: str

    @property
    def name(self) -> str:
        """What the job is called."""
        return name_of(self.job)

    @property
    def view(self) -> View:
        """Its result."""
        return self.result.view

    @property
    def chosen(self) -> Row | None:
        """The selected configuration."""
        return self.view.by_skip.get(self.view.selected) if self.view.selected.blocks else None

    @property
    def checked(self) -> CheckedPoint | None:
        """The selected configuration on held-out prompts."""
        return next((point for point in checked_points(self.view) if point.is_selected), None)

    @property
    def verdict(self) -> Verdict:
        """What held-out prompts say of the selected configuration."""
        return self.view.verdict(self.view.selected)

    @property
    def gain(self) -> float | None:
        """Expected speed-up of the selected configuration, by the cost model."""
        return self.view.gain(self.chosen) if self.chosen else None


@dataclass(frozen=True)
class LayerGroup:
    """Jobs whose targets have as many layers: their selected sets stand on one ruler."""

    num_layers: int
    jobs: tuple[ComparedJob, ...]


def side_by_side(found: Sequence[tuple[Job, Result]]) -> tuple[ComparedJob, ...]:
    """Jobs in the given order, each with a name that tells it apart from the others of its domain."""
    several_targets = len({result.view.target["fingerprint"] for _, result in found}) > 1
    named = [(job, result, _series(job, several_targets)) for job, result in found]
    taken = [(result.view.domain, series) for _, result, series in named]
    return tuple(
        ComparedJob(
            job, result, series if taken.count((result.view.domain, series)) == 1 else _own(job, series)
        )
        for job, result, series in named
    )


def accept_bars(jobs: Sequence[ComparedJob], address: Address) -> dict[str, Any]:
    """Accept length of dense by domain, a series for each draft method."""
    return _chart(
        jobs,
        "tokens a step",
        1.0,
        address,
        lambda job: (job.view.dense.accept_length, job.result.accept_interval),
    )


def speed_chart(jobs: Sequence[ComparedJob], address: Address) -> dict[str, Any]:
    """Speed-up of the selected configurations on held-out prompts."""

    def figure(job: ComparedJob) -> tuple[float | None, Interval | None]:
        found = job.checked
        return (found.point.speedup, found.speedup_interval) if found else (None, None)

    return _chart(jobs, "\N{MULTIPLICATION SIGN}", 1.0, address, figure, is_held_out=True)


def metric_chart(jobs: Sequence[ComparedJob], address: Address) -> dict[str, Any]:
    """Difference of the metric to dense on held-out prompts, of the selected configurations."""

    def figure(job: ComparedJob) -> tuple[float | None, Interval | None]:
        found = job.checked
        return (found.metric_difference, found.metric_interval) if found else (None, None)

    return _chart(jobs, "", 0.0, address, figure, is_held_out=True)


def file_stem(jobs: Sequence[ComparedJob]) -> str:
    """How files with figures of the jobs begin."""
    ids = [short_id(job.job.id) for job in jobs]
    return "-".join(
        [
            "compare",
            *ids[:_IDS_IN_NAMES],
            *([f"and-{len(ids) - _IDS_IN_NAMES}-more"] * (len(ids) > _IDS_IN_NAMES)),
        ]
    )


def layer_groups(jobs: Iterable[ComparedJob]) -> tuple[LayerGroup, ...]:
    """Jobs by how many layers their targets have."""
    found: dict[int, list[ComparedJob]] = {}
    for job in jobs:
        found.setdefault(job.view.num_layers, []).append(job)
    return tuple(LayerGroup(number, tuple(group)) for number, group in found.items())


def _chart(
    jobs: Sequence[ComparedJob],
    unit: str,
    reference: float,
    address: Address,
    figure: Callable[[ComparedJob], tuple[float | None, Interval | None]],
    *,
    is_held_out: bool = False,
) -> dict[str, Any]:
    series: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        value, interval = figure(job)
        if value is None:
            continue
        low, high = interval or (None, None)
        series.setdefault(job.series, []).append(
            {
                "category": job.view.domain,
                "value": value,
                "low": low,
                "high": high,
                **(gate_mark(job.verdict) if is_held_out else {}),
                "url": address(job.job.id),
            }
        )
    present = {value["category"] for values in series.values() for value in values}
    return {
        "unit": unit,
        "reference": reference,
        "categories": [domain for domain in _domains(jobs) if domain in present],
        "series": [{"name": name, "values": values} for name, values in series.items()],
    }


def _domains(jobs: Sequence[ComparedJob]) -> list[str]:
    return list(dict.fromkeys(job.view.domain for job in jobs))


def _series(job: Job, with_target: bool) -> str:
    return f"{job.draft} on {job.target}" if with_target else job.draft


def _own(job: Job, series: str) -> str:
    return f"{series} ({job.name or short_id(job.id)})"
