"""The job page: what it shows of a job, read in as few statements as it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from api.views import job_view
from models.events import Event
from models.job_events import AtWork, at_work, last_events, standing_of
from models.jobs import ENDED, Job
from models.plots import DENSE_KEY, Cloud, singles_of
from skipmap.client.documents import JobView
from skipmap.errors import InvalidInput
from skipmap.profiling.report.figures import relative
from skipmap.spec import JobSpec, SearchSpec
from web.filters import short_id
from web.guard import may
from web.views.actions import Action, possible
from web.views.layers import LayerMap, has_pool, is_by_layers, layer_map
from web.views.levels import LevelRow, level_rows, time_left
from web.views.outcomes import Extent, Trouble, extent_of, trouble_of
from web.views.words import event_text

_EVENTS_SHOWN = 12
_NAME_CHARACTERS = 40
"""So many of a job's name stand in names of files."""
_STEPS_OF_CHARTS = 100
"""So often charts change while a level runs."""


@dataclass(frozen=True)
class EventRow:
    """An event in words; ``error``: what went wrong, if anything did."""

    at: datetime
    text: str
    error: str | None


@dataclass(frozen=True)
class BestRow:
    """The best configuration so far, beside dense."""

    key: str
    skip: Sequence[int]
    accept_length: float
    metric: float
    accept_change: float | None
    metric_change: float | None


@dataclass(frozen=True)
class JobPage:
    """A job with everything around it.

    ``spec`` is None for a job of a version that knew other fields, ``num_layers`` until a worker has loaded the target.
    ``layers``: None until dense is evaluated.
    """

    view: JobView
    spec: JobSpec | None
    num_layers: int | None
    layers: LayerMap | None
    levels: Sequence[LevelRow]
    at_work: Sequence[AtWork]
    events: Sequence[EventRow]

    @property
    def name(self) -> str:
        """Its name, or what it does."""
        return name_of(self.view)

    @property
    def search(self) -> SearchSpec | None:
        """The search part of the spec."""
        return self.spec.search if self.spec else None

    @property
    def has_pool(self) -> bool:
        """Whether its search combines layers that it chooses one by one."""
        return self.search is not None and has_pool(self.search)

    @property
    def is_by_layers(self) -> bool:
        """Whether each layer that may be skipped is evaluated alone, so that they can be shown side by side."""
        return (
            self.search is not None
            and self.num_layers is not None
            and is_by_layers(self.search, self.num_layers)
        )

    @property
    def metric(self) -> str:
        """Name of the domain's metric."""
        return metric_of(self.view.spec)

    @property
    def actions(self) -> list[Action]:
        """What its state allows."""
        return possible(self.view.state)

    @property
    def time_left(self) -> str | None:
        """How long the running level will take, as a range."""
        return time_left(self.view.progress)

    @property
    def extent(self) -> Extent | None:
        """What the search covered, once it has ended."""
        if not self.view.outcome:
            return None
        return extent_of(self.view.outcome, self.search.max_depth if self.search else None)

    @property
    def trouble(self) -> Trouble | None:
        """What went wrong, and what to do."""
        return trouble_of(self.view)

    @property
    def best(self) -> BestRow | None:
        """The best configuration so far; of a job that has succeeded, the selected one."""
        best, dense = self.view.best, self.layers.cloud.dense if self.layers else None
        if best is None:
            return None
        return BestRow(
            ",".join(map(str, best.skip)),
            best.skip,
            best.accept_length,
            best.metric,
            relative(best.accept_length, dense.accept_length) if dense else None,
            relative(best.metric, dense.metric) if dense else None,
        )

    @property
    def selected(self) -> str | None:
        """Key of the selected configuration, once there is one."""
        return selected_key(self.view.state, self.view.best)

    @property
    def spec_text(self) -> str:
        """The spec as JSON, to read and to copy."""
        return json.dumps(self.view.spec, indent=2, ensure_ascii=False)


def read_job_page(session: Session, job_id: str, lease_seconds: float) -> JobPage:
    """A job for its page; raises NotFound."""
    view, _ = job_view(session, job_id, lease_seconds)
    job = session.get_one(Job, job_id)
    spec, num_layers = readable_spec(job), num_layers_of(job)
    singles = singles_of(session, job_id, spec.search) if spec else None
    layers = _layers(job, spec, singles, num_layers)
    pool = layers.pool if layers else None
    return JobPage(
        view,
        spec,
        num_layers,
        layers,
        level_rows(view, spec.search if spec else None, num_layers, pool),
        at_work(session, job_id),
        [_event_row(event) for event in last_events(session, job_id, _EVENTS_SHOWN)],
    )


def tag_for_viewer(tag: str) -> str:
    """A tag for what is shown of a job to somebody with these rights."""
    return f"{tag}-{'w' if may('jobs:write') else 'r'}{'p' if may('maps:publish') else ''}"


def drawn_tag(session: Session, job_id: str) -> str:
    """A tag that changes when charts look different: they need not follow each of thousands of evaluations.

    Raises NotFound.
    """
    found = standing_of(session, job_id)
    step = max(1, found.size // _STEPS_OF_CHARTS)
    return f"{found.state}-{found.idx}-{found.level_state}-{found.done // step}"


def is_final(state: str) -> bool:
    """Whether nothing of a job changes any more; one that has failed may be retried."""
    return state in ENDED and state != "failed"


def readable_spec(job: Job) -> JobSpec | None:
    """The spec of a job; None where a version that knew other fields has stored it."""
    try:
        return job.parsed_spec
    except InvalidInput:
        return None


def num_layers_of(job: Job) -> int | None:
    """How many layers the target has, once a worker has loaded it."""
    facts = job.parsed_facts
    return None if facts is None else facts.num_layers


def name_of(job: Any) -> str:
    """What a job is called: its name, or what it does."""
    return job.name or f"{job.domain} on {job.target} with {job.draft}"


def file_stem(job: Any) -> str:
    """How files with figures of a job begin: its name, and the end of its id."""
    return f"{name_of(job)[:_NAME_CHARACTERS]}-{short_id(job.id)}"


def metric_of(spec: Mapping[str, Any]) -> str:
    """Name of the metric of a job's domain."""
    return (spec.get("domain") or {}).get("metric") or "metric"


def selected_key(state: str, best: Any) -> str | None:
    """Key of the configuration that a job that has succeeded has selected; None for dense and before."""
    if state != "succeeded" or best is None:
        return None
    skip = best["skip"] if isinstance(best, Mapping) else best.skip
    return ",".join(map(str, skip)) or DENSE_KEY


def _layers(job: Job, spec: JobSpec | None, singles: Cloud | None, num_layers: int | None) -> LayerMap | None:
    if spec is None or singles is None or num_layers is None:
        return None
    pool = job.outcome["pool"] if job.outcome else None
    return layer_map(singles, spec.search, num_layers, pool)


def _event_row(event: Event) -> EventRow:
    return EventRow(event.created_at, event_text(event.kind, event.payload), event.payload.get("error"))
