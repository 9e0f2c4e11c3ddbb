"""What a job can be made of: targets, drafts, domains, prompts, each with the words that a list shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.catalog import DOMAINS, DRAFTS, TARGETS, all_entries
from models.base import is_id
from models.calibration_sets import CalibrationSet, find_set, list_sets
from skipmap.calibration.sources import sample_names
from skipmap.calibration.templates import template_names
from skipmap.client.documents import CalibrationSetView, EntryView
from skipmap.errors import NotFound
from skipmap.metrics.registry import metric_help
from web.filters import plural
from web.forms.fields import Field
from web.forms.help import UNSET, choices_of
from web.forms.job import OTHER, Typed, has_value
from web.forms.parameters import Parameter, control_of_parameter, is_lossy, parameters_of
from web.forms.text import read_text, shortened, write_scalar

_MOST_SETS = 200

Options = list[tuple[str, str]]
"""Value and label of each."""


@dataclass(frozen=True)
class DraftChoice:
    """A draft method, or a user's own name for one with parameters; ``summary``: a sentence about it."""

    name: str
    summary: str
    is_lossy: bool
    parameters: tuple[tuple[str, Parameter], ...]
    """Each with the name of its control."""


@dataclass(frozen=True)
class Choices:
    """Options of the form's lists. ``older_sets``: whether there are more sets than are listed."""

    targets: Options
    drafts: Options
    methods: list[DraftChoice]
    domains: Options
    metrics: Options
    templates: Options
    samples: Options
    sets: Options
    older_sets: bool


def read_choices(session: Session, values: Typed) -> Choices:
    """All that there is, and what ``values`` of the form have chosen although it is not there (any more)."""
    targets, drafts, domains = (all_entries(session, section) for section in (TARGETS, DRAFTS, DOMAINS))
    sets = list_sets(session, limit=_MOST_SETS + 1)
    shown = [(row.id, set_label(row)) for row in sets[:_MOST_SETS]]
    return Choices(
        targets=_with_chosen(
            [("", "Choose a target"), *_named(targets), (OTHER, "Another model (give its name below)")],
            values,
            "target.choice",
        ),
        drafts=_with_chosen([("", "Choose a draft method"), *_named(drafts)], values, "draft.method"),
        methods=[_draft(entry) for entry in drafts],
        domains=_with_chosen(
            [("", "Choose a domain"), *_named(domains), (OTHER, "A new domain (name it below)")],
            values,
            "domain.choice",
        ),
        metrics=_with_chosen([("", "The domain's own"), *_metrics()], values, "domain.metric"),
        templates=_with_chosen(
            [("", "The domain's own"), *_same(template_names())], values, "domain.template"
        ),
        samples=_with_chosen([("", "Choose a sample"), *_same(sample_names())], values, "calibration.sample"),
        sets=_with_set(session, [("", "Choose a set"), *shown], values),
        older_sets=len(sets) > _MOST_SETS,
    )


def options_of(field: Field) -> Options:
    """Options of a field whose values its model lists."""
    empty = [] if has_value(field) else [("", UNSET.get(field.path, "the default"))]
    return [*empty, *choices_of(field)]


def set_label(row: CalibrationSet | CalibrationSetView) -> str:
    """A calibration set as lists name it."""
    return f"{row.name} ({plural(row.items, 'prompt')})"


def _named(entries: list[EntryView]) -> Options:
    """Built-in names first."""
    ordered = sorted(entries, key=lambda entry: not entry.built_in)
    labels = [(entry.name, ", ".join(_notes(entry))) for entry in ordered]
    return [(name, f"{name} ({notes})" if notes else name) for name, notes in labels]


def _notes(entry: EntryView) -> Iterator[str]:
    """What is to be known of a name before it is chosen, in few words."""
    definition = entry.definition
    method = str(definition.get("method") or "")
    if not entry.built_in:
        yield "own"
        yield str(definition.get("id") or method or definition.get("metric") or "")
    if is_lossy(method):
        yield "lossy"


def _same(names: list[str]) -> Options:
    return [(name, name) for name in names]


def _metrics() -> Options:
    return [(name, f"{name}: {words}") for name, words in metric_help().items()]


def _draft(entry: EntryView) -> DraftChoice:
    method = str(entry.definition["method"])
    summary = entry.description
    own: dict[str, Any] = {}
    if not entry.built_in:
        own = entry.definition.get("params") or {}
        given = ", ".join(f"{name} = {write_scalar(value)}" for name, value in own.items())
        summary = f"{method} with {given}" if given else method
    parameters = [
        (control_of_parameter(entry.name, parameter.name), parameter.with_default(own))
        for parameter in parameters_of(method)
    ]
    return DraftChoice(entry.name, summary, is_lossy(method), tuple(parameters))


def _with_chosen(options: Options, values: Typed, name: str) -> Options:
    chosen = values.get(name, "")
    if any(value == chosen for value, _ in options):
        return options
    return [*options, (chosen, f"{shortened(read_text(chosen) or chosen)} (not known here)")]


def _with_set(session: Session, options: Options, values: Typed) -> Options:
    chosen = values.get("calibration.set", "")
    if any(value == chosen for value, _ in options):
        return options
    try:
        label = set_label(find_set(session, chosen)) if is_id(chosen) else None
    except NotFound:
        label = None
    return [*options, (chosen, label)] if label else _with_chosen(options, values, "calibration.set")
