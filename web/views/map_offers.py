"""What a finished job offers to a map: its operating points with figures, and what the held-out gate says of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.greenlets import aside
from api.service import Service
from models.configurations import result_text
from models.jobs import Job
from skipmap.maps.document import build_map, document_bytes
from skipmap.maps.gate import GateRefused, check_points
from skipmap.maps.schema import PointFigures, read_map
from skipmap.maps.verdict import Verdict, verdict_of_result
from skipmap.profiling.documents import without_prompts
from skipmap.skipset import SkipSet
from web.views.kept import Kept

NAMES = ("selected", "paper", "cheapest", "fastest")
DENSE = "dense"
_ANY_NAME = "preview"
_KEPT_CHOICES = 20_000

Skip = tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """A point that can be published. ``value``: how the form names it; ``names``: the operating points that it is.

    ``problem``: why the held-out gate refuses it, with figures; None when it passes.
    """

    value: str
    names: Sequence[str]
    point: PointFigures
    verdict: Verdict
    problem: str | None


@dataclass(frozen=True)
class Offer:
    """A job with its choices, the selected point first and dense last. ``result``: without the rows of no choice."""

    job: Job
    domain: str
    result: Mapping[str, Any]
    choices: Sequence[Choice]

    def choice(self, value: str | None) -> Choice:
        """The choice of this value, or of these layers; the selected point for a value that is not offered."""
        found = (one for one in self.choices if value in (one.value, skip_value(one.point.skip), *one.names))
        return next(found, self.choices[0])

    @property
    def refused_values(self) -> list[str]:
        """Values of the choices that need an override."""
        return [one.value for one in self.choices if one.problem is not None]


# What a job found never changes, and the form is looked at again and again: with every change that is made to it.
_kept: Kept[tuple[str, Skip], Offer] = Kept(_KEPT_CHOICES, lambda offer: len(offer.choices))


def skip_value(skip: Sequence[int]) -> str:
    """How forms name a skip set."""
    return "-".join(map(str, skip)) or DENSE


def point_of(value: str) -> str | list[int]:
    """The point that a form's value names, as the API takes it."""
    if value == DENSE:
        return []
    parts = value.split("-")
    if all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return [int(part) for part in parts]
    return value


def read_offer(service: Service, job: Job, wanted: str | None = None) -> Offer | None:
    """What a job offers, None while it has no result.

    ``wanted``: value of a further configuration that is to be among the choices, if it is feasible. Raises InvalidInput
    for a result that fits no map.
    """

    def make(further: Skip) -> Offer | None:
        text = service.database.read(result_text, job.id)
        # Others are served meanwhile: there may be 20,000 rows.
        return None if text is None else aside(lambda: make_offer(job, json.loads(text), further), len(text))

    offer = _kept.get((job.id, ()), lambda: make(()))
    if offer is None:
        return None
    further = _layers(wanted, offer.result["target"]["num_layers"])
    if further and all(one.point.skip != further for one in offer.choices):
        offer = _kept.get((job.id, further), lambda: make(further)) or offer
    return replace(offer, job=job)


def make_offer(job: Job, document: Mapping[str, Any], further: Skip = ()) -> Offer | None:
    """The choices of a result; ``further``: one more of them, None when that is not feasible."""
    named = {"selected": document["selected"], **document["operating_points"]}
    points = {name: tuple(named[name] or ()) for name in NAMES}
    if further and not _is_feasible(document, further):
        return None
    skips = dict.fromkeys([*points.values(), *map(tuple, document["front"]), further, ()])
    # Of 20,000 rows a form needs a few.
    result = without_prompts(
        {**document, "evaluations": [row for row in document["evaluations"] if tuple(row["skip"]) in skips]}
    )
    figures = _figures(result, list(skips))
    problems = {skip: _problem(result, skip) for skip in skips}
    # Dense stands last, but where it is what was selected.
    ordered = sorted(skips, key=lambda skip: (skip != points["selected"], not skip))
    return Offer(
        job=job,
        domain=document["spec"]["domain"]["name"],
        result=result,
        choices=[
            Choice(
                value=next(
                    (name for name, point in points.items() if point == skip and skip), skip_value(skip)
                ),
                names=[name for name, point in points.items() if point == skip],
                point=figures[skip],
                verdict=verdict_of_result(result, SkipSet(skip)),
                problem=problems[skip],
            )
            for skip in ordered
        ],
    )


def _layers(value: str | None, num_layers: int) -> Skip:
    """The layers that a form's value names; none for a name, and for layers that are not there."""
    point = None if value is None else point_of(value)
    skip = tuple(sorted(set(point))) if isinstance(point, list) else ()
    return skip if skip and skip[-1] < num_layers else ()


def _is_feasible(document: Mapping[str, Any], skip: Skip) -> bool:
    return any(tuple(row["skip"]) == skip and row["feasible"] for row in document["evaluations"])


def _figures(result: Mapping[str, Any], skips: Sequence[Skip]) -> dict[Skip, PointFigures]:
    """Figures of each set, as a map would hold them."""
    domain = result["spec"]["domain"]["name"]
    found: dict[Skip, PointFigures] = {}
    for skip in skips:
        if skip in found:
            continue
        document = build_map([result], _ANY_NAME, version=1, points={domain: list(skip)})
        entry = read_map(document_bytes(document)).domains[domain]
        # An entry brings the figures of the whole front along.
        found |= {point.skip: point for point in (*entry.alternatives, entry)}
    return found


def _problem(result: Mapping[str, Any], skip: Skip) -> str | None:
    domain = result["spec"]["domain"]["name"]
    try:
        check_points([result], {domain: list(skip)})
    except GateRefused as refusal:
        return refusal.problems[domain]
    return None
