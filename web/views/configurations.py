"""Configurations of a job as rows, and one of them beside dense and the floors."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.views import evaluation_view
from models.chunks import skip_key
from models.configurations import find_evaluation
from models.jobs import Job
from models.plots import DENSE_KEY
from models.queries import floors_of
from skipmap.client.documents import EvaluationView
from skipmap.errors import NotFound
from skipmap.maps.gain import expected_speedup
from skipmap.maps.verdict import Verdict
from skipmap.profiling.pareto import Score
from skipmap.profiling.report.figures import relative
from skipmap.profiling.search import DENSE, Floors
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec
from web.views.jobs import metric_of, readable_spec
from web.views.results import Result
from web.views.words import measure_meaning, measure_name


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration. Cost and expected speed-up are None where cost was not measured (yet).

    ``verdict``: what held-out prompts say of it; None until the job has its result.
    """

    view: EvaluationView
    accept_change: float | None
    metric_change: float | None
    cost_ratio: float | None
    gain: float | None
    missed: tuple[str, ...]
    verdict: Verdict | None
    is_front: bool
    is_selected: bool

    @property
    def is_checked(self) -> bool:
        """Whether it was tried on held-out prompts."""
        return self.verdict is not None and self.verdict.word not in ("not checked", "dense")

    @property
    def key(self) -> str:
        """Names it in addresses."""
        return skip_key(SkipSet.of(self.view.skip))


@dataclass(frozen=True)
class FloorRow:
    """A figure of one configuration beside dense and its floor."""

    name: str
    meaning: str
    value: float
    dense: float
    floor: float
    keeps: bool

    @property
    def change(self) -> float | None:
        """Relative to dense."""
        return relative(self.value, self.dense)

    @property
    def spare(self) -> float:
        """How far it is above the floor; negative below."""
        return self.value - self.floor


@dataclass(frozen=True)
class Reference:
    """What the configurations of a job are measured against: dense, the floors, and the result once there is one."""

    search: SearchSpec
    metric: str
    dense: EvaluationView
    floors: Floors
    result: Result | None = None

    def accept(self, view: EvaluationView) -> float:
        """A by the measure that the floor looks at."""
        by_tokens = self.search.accept_measure == "tokens_per_step"
        return view.accept_length if by_tokens else view.accepted_drafts

    def score(self, view: EvaluationView) -> Score:
        """The pair that the floors look at."""
        return Score(self.accept(view), view.metric)

    def missed(self, view: EvaluationView) -> tuple[str, ...]:
        """Names of the floors that a configuration misses."""
        score, found = self.score(view), []
        if not self.floors.admits_accept(score):
            found.append(measure_name(self.search.accept_measure).lower())
        if not self.floors.admits_metric(score):
            found.append(self.metric)
        return tuple(found)


def read_reference(session: Session, job: Job, result: Result | None) -> Reference | None:
    """What a job's configurations are measured against; None until dense is evaluated, or for an unreadable spec."""
    spec = readable_spec(job)
    floors = floors_of(session, job.id, spec.search) if spec else None
    if spec is None or floors is None:
        return None
    try:
        row = find_evaluation(session, job.id, DENSE_KEY)
    except NotFound:
        # The job is being removed.
        return None
    dense = evaluation_view(row, floors, spec.search.accept_measure)
    return Reference(spec.search, metric_of(job.spec), dense, floors, result)


def configuration_row(view: EvaluationView, against: Reference) -> ConfigurationRow:
    """A configuration as a row."""
    skip, result = SkipSet.of(view.skip), against.result
    cost = result.cost_ratio(skip) if result else None
    return ConfigurationRow(
        view,
        relative(against.accept(view), against.accept(against.dense)),
        relative(view.metric, against.dense.metric),
        cost,
        expected_speedup(against.dense.accept_length, view.accept_length, cost),
        against.missed(view) if skip != DENSE else (),
        result.view.verdict(skip) if result else None,
        result is not None and skip in result.view.front,
        result is not None and skip != DENSE and skip == result.view.selected,
    )


def floor_rows(view: EvaluationView, against: Reference) -> tuple[FloorRow, FloorRow]:
    """A and M of a configuration: what they are, what dense has, and where the floor is."""
    measure, floors = against.search.accept_measure, against.floors
    score, dense = against.score(view), against.score(against.dense)
    return (
        FloorRow(
            measure_name(measure),
            measure_meaning(measure),
            score.accept,
            dense.accept,
            floors.accept,
            floors.admits_accept(score),
        ),
        FloorRow(
            against.metric,
            "the domain's metric, 0 to 1, higher is better",
            score.metric,
            dense.metric,
            floors.metric,
            floors.admits_metric(score),
        ),
    )


def key_of(text: str) -> str:
    """The key of the configuration that an address names; raises InvalidInput for text that names none."""
    return skip_key(SkipSet.parse(text))
