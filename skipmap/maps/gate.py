"""The held-out gate: a point goes into a published map when it passes on prompts that the search never saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skipmap.errors import InvalidInput, Refused
from skipmap.maps.points import SELECTED, Point, by_domain, chosen_skip, held_out_point, known_domains
from skipmap.maps.schema import MAX_REASON_CHARACTERS
from skipmap.skipset import SkipSet


class GateRefused(Refused):
    """A point fails on held-out prompts, or was not checked. ``domains``: which, ``problems``: why, by domain."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        listed = "; ".join(f"domain {name!r}: {problem}" for name, problem in problems.items())
        super().__init__(f"{listed}. Choose another point, or give a reason to override the gate")

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains whose points were refused."""
        return tuple(self.problems)


def check_points(
    results: Sequence[Mapping[str, Any]],
    points: Mapping[str, Point] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Check the chosen point of every result's domain; returns the overrides that were needed.

    ``points``: domain -> point (default: selected). ``overrides``: domain -> reason. Dense passes always.
    Raises GateRefused naming every refused domain with its figures and floors, InvalidInput for an empty reason.
    """
    points, overrides = points or {}, overrides or {}
    domains = by_domain(results)
    known_domains(points, domains, "points")
    known_domains(overrides, domains, "overrides")
    for name, reason in overrides.items():
        _check_reason(name, reason)
    problems = {
        name: problem
        for name, result in domains.items()
        if (problem := _problem(result, points.get(name, SELECTED), f"points.{name}")) is not None
    }
    refused = {name: problem for name, problem in problems.items() if name not in overrides}
    if refused:
        raise GateRefused(refused)
    return {name: overrides[name].strip() for name in problems}


def _check_reason(name: str, reason: str) -> None:
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidInput(f"overrides.{name}", "the reason is empty; say why the gate does not hold here")
    if len(reason) > MAX_REASON_CHARACTERS:
        raise InvalidInput(
            f"overrides.{name}", f"has {len(reason)} characters; at most {MAX_REASON_CHARACTERS} are kept"
        )


def _problem(result: Mapping[str, Any], point: Point, field: str) -> str | None:
    skip = chosen_skip(result, point, field)
    if not skip.blocks:
        return None
    checked = held_out_point(result, skip)
    if checked is None:
        return f"{skip} was not checked on held-out prompts{_others(result)}"
    if checked["passes_gate"]:
        return None
    return f"{skip} fails on held-out prompts: {_figures(result, checked)}{_others(result)}"


def _others(result: Mapping[str, Any]) -> str:
    """Points that would pass, with the name under which one can choose them."""
    named = {tuple(skip or ()): name for name, skip in result["operating_points"].items()}
    passing = [
        f"{SkipSet.of(point['skip'])}" + (f" ({named[skip]})" if skip in named else "")
        for point in result["held_out"]["points"]
        if point["passes_gate"] and (skip := tuple(point["skip"]))
    ]
    return f"; passing: {', '.join(passing)}" if passing else "; no point of this job but dense passes"


def _figures(result: Mapping[str, Any], checked: Mapping[str, Any]) -> str:
    dense, search = result["held_out"]["dense"], result["spec"]["search"]
    by_drafts = search["accept_measure"] == "accepted_drafts"
    measure = "accepted_drafts" if by_drafts else "accept_length"
    told = [
        _figure(measure.replace("_", " "), checked[measure], dense[measure], search["eps"]),
        _figure(result["metric"]["name"], checked["metric"], dense["metric"], search["tau"]),
    ]
    if search["gate"] == "confident":
        told.append("the lower ends of the intervals must meet the floors (search.gate is confident)")
    return ", ".join(told)


def _figure(name: str, sparse: float, dense: float, tolerance: float) -> str:
    return f"{name} {sparse:.4f} (floor {(1 - tolerance) * dense:.4f}, dense {dense:.4f})"
