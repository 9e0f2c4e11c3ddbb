"""What a job as it stands in the form will cost: configurations level by level, what its bounds cut, and time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from sqlalchemy.orm import Session

from api.service import Service
from models.base import is_id
from models.calibration_sets import find_set
from models.estimates import Pace, Plan, pace_of, plan_of
from models.later_steps import LaterPace, Span
from models.workers import live_workers
from skipmap.calibration.sources import SAMPLE_PREFIX, load_source
from skipmap.client.documents import SET_SOURCE
from skipmap.errors import InvalidInput, NotFound
from skipmap.profiling.search import check_bounds
from skipmap.spec import CalibrationSpec, SearchSpec
from web.filters import count, duration, plural
from web.forms.job import Typed, read_form
from web.forms.problems import label_of, plain, request_of
from web.forms.targets import named, number_of_layers
from web.views.layers import has_pool
from web.views.strategies import ends_sooner, kept_first


@dataclass(frozen=True)
class Estimate:
    """What can be said. ``problems``: why nothing can, or why the job would end at once.

    ``seconds``: likely and long time of one worker for all that is known of it: ``search``, then ``cost`` and ``check``
    where earlier jobs tell; ``left_out``: what is not in it; ``prompts`` that are searched on, and ``held_out`` ones,
    where that is known; ``workers`` that are there for it now; ``by_layers``: whether each layer of the target is
    evaluated alone; ``ends``: what ends the search before its deepest level, in plain words.
    """

    plan: Plan | None = None
    problems: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
    pace: Pace | None = None
    search: Span | None = None
    cost: Span | None = None
    check: Span | None = None
    left_out: tuple[str, ...] = ()
    prompts: int | None = None
    held_out: int | None = None
    workers: int = 0
    by_layers: bool = True
    ends: str = ""

    @property
    def seconds(self) -> Span | None:
        """Of all steps together; None where nothing is known of the search itself."""
        if self.search is None:
            return None
        known = [span for span in (self.search, self.cost, self.check) if span is not None]
        return sum(likely for likely, _ in known), sum(slow for _, slow in known)


def estimate(service: Service, form: Typed) -> Estimate:
    """Look at a form that may be far from complete."""
    _, wrong = request_of(form)
    problems = [
        f"{label_of(path)}: {plain(text)}" for path, text in wrong.items() if path.startswith("search.")
    ]
    if problems:
        return Estimate(problems=tuple(problems))
    data = read_form(form)
    search = SearchSpec.model_validate(data["search"])
    return service.database.read(_look, search, data, service.stored.lease_seconds)


def _look(session: Session, search: SearchSpec, data: Mapping[str, Any], lease_seconds: float) -> Estimate:
    target, draft = named(session, data)
    layers = number_of_layers(session, target.id) if target is not None else None
    try:
        _check(search, layers)
    except InvalidInput as error:
        return Estimate(problems=(f"{label_of(error.field) or 'Target'}: {error.problem}",))
    plan = plan_of(search, layers)
    pace = None
    if target is not None and draft is not None:
        device = None if target.device == "auto" else target.device.partition(":")[0]
        pace = pace_of(session, target.id, draft.method, device)
    prompts, held_out = _prompts(session, data)
    seconds = pace.seconds(plan.most, prompts) if pace is not None and plan.most is not None else None
    live = live_workers(session, lease_seconds)
    later = pace.later if pace is not None else LaterPace()
    check = None if held_out is None else later.check_seconds(held_out, _most_points(search, plan))
    return Estimate(
        plan=plan,
        cuts=tuple(_cuts(search, plan, seconds)),
        pace=pace,
        search=None if seconds is None else _bounded(seconds, search.max_seconds),
        cost=later.cost,
        check=check,
        left_out=tuple(_left_out(plan, later, check)),
        prompts=prompts,
        held_out=held_out,
        workers=sum(pace is None or worker.device_class == pace.device_class for worker in live),
        by_layers=has_pool(search),
        ends=ends_sooner(search.strategy),
    )


def _check(search: SearchSpec, layers: int | None) -> None:
    if layers is not None:
        check_bounds(search, layers)
    elif has_pool(search):
        # Without the target's own number, levels are looked at as large as they may become.
        check_bounds(search.model_copy(update={"max_evaluations": None}), max(2, search.max_pool))


def _bounded(seconds: Span, most: float | None) -> Span:
    """The time of a search that ends after so many seconds of evaluation."""
    return seconds if most is None else (min(seconds[0], most), min(seconds[1], most))


def _most_points(search: SearchSpec, plan: Plan) -> int:
    """Configurations that the held-out check looks at beside dense, at most."""
    return search.max_held_out_points if plan.most is None else min(search.max_held_out_points, plan.most - 1)


def _left_out(plan: Plan, later: LaterPace, check: Span | None) -> Iterator[str]:
    """What no time is known of, and comes on top."""
    yield "loading the model"
    if plan.ranked:
        yield "the ranking figures"
    if later.cost is None:
        yield "the measurement of cost"
    if check is None:
        yield "the check on held-out prompts"


def _prompts(session: Session, data: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """About how many prompts are searched on and held out; None for a data set of the hub, or where none is chosen."""
    try:
        calibration = CalibrationSpec.model_validate(data["calibration"])
        items = _items(session, calibration)
    except (ValueError, InvalidInput, NotFound):
        return None, None
    shots = data["domain"].get("shots")
    items = min(items, calibration.limit or items) - (shots if isinstance(shots, int) else 0)
    searched = max(1, math.ceil(Fraction(str(calibration.calibration_fraction)) * items))
    return searched, max(0, items - searched)


def _items(session: Session, calibration: CalibrationSpec) -> int:
    source = calibration.source
    if source.startswith(SAMPLE_PREFIX):
        return _items_of_sample(source)
    set_id = source.removeprefix(SET_SOURCE)
    if not source.startswith(SET_SOURCE) or not is_id(set_id):
        raise NotFound("only the workers know how large it is")
    row = find_set(session, set_id)
    if calibration.category is None:
        return row.items
    return int(row.statistics["categories"].get(calibration.category, row.items))


@cache
def _items_of_sample(source: str) -> int:
    return len(load_source(CalibrationSpec(source=source)).items)


def _cuts(search: SearchSpec, plan: Plan, seconds: Span | None) -> Iterator[str]:
    """What the bounds leave out, in plain words."""
    layers, pool = plan.num_layers, plan.pool
    if layers is not None and pool is not None and pool < layers:
        yield f"At most {pool} of the {layers} layers go on to be combined."
    largest = plan.levels[-1].level
    if search.max_depth > largest:
        yield f"Sets of {plural(largest, 'layer')} are the largest that there can be."
    elif pool is None or largest < pool:
        yield f"Sets of more than {plural(largest, 'layer')} are not looked at."
    for level in plan.levels:
        what = f"the {count(level.configurations)} sets of {level.level}"
        if level.cut and level.planned:
            first = kept_first(search.strategy)
            yield f"Of {what}, the {count(level.planned)} {first} are evaluated, {count(level.cut)} are not."
        elif level.cut:
            yield (
                f"The set of {level.level} is not evaluated."
                if level.configurations == 1
                else f"None of {what} is evaluated."
            )
    if layers is None and search.max_evaluations is not None and has_pool(search):
        yield (
            f"Of the {count(search.max_evaluations)} evaluations, those that the single layers leave are for sets of "
            "layers, the most promising first."
        )
    if search.max_seconds is not None and (seconds is None or seconds[1] > search.max_seconds):
        yield f"The search ends after {duration(search.max_seconds)} of evaluation, with what it has by then."
