"""Which operating point of a result a map takes for its domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet

PointName = Literal["selected", "paper", "cheapest", "fastest"]
Point = PointName | Sequence[int]
"""A named operating point, or the block indices of a configuration that was evaluated."""

SELECTED: PointName = "selected"
_NAMES = ("selected", "paper", "cheapest", "fastest")


def by_domain(results: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Results by the name of their domain; raises InvalidInput for no result, and for two of one domain."""
    if not results:
        raise InvalidInput("domains", "no result is given; give at least one")
    found: dict[str, Mapping[str, Any]] = {}
    for result in results:
        name = result["spec"]["domain"]["name"]
        if name in found:
            raise InvalidInput("domains", f"{name!r} is given twice; give one result a domain")
        found[name] = result
    return found


def known_domains(given: Mapping[str, Any], domains: Mapping[str, Any], field: str) -> None:
    """Raise InvalidInput when something is given for a domain that there is no result of."""
    stray = sorted(given.keys() - domains.keys())
    if stray:
        raise InvalidInput(
            f"{field}.{stray[0]}", f"there is no result of this domain; there is {', '.join(sorted(domains))}"
        )


def chosen_skip(result: Mapping[str, Any], point: Point, field: str = "points") -> SkipSet:
    """The skip set of a point. A named point of a result where nothing is feasible is dense.

    Raises InvalidInput for an unknown name, and for blocks that the job did not evaluate together.
    """
    if isinstance(point, str):
        if point not in _NAMES:
            allowed = f"{', '.join(_NAMES)}, or a list of block indices"
            raise InvalidInput(field, f"{point!r} is given; allowed: {allowed}")
        found = result["selected"] if point == SELECTED else result["operating_points"][point]
        return SkipSet.of(found or ())
    if not isinstance(point, list | tuple) or not all(type(block) is int for block in point):
        raise InvalidInput(field, f"{point!r} is given; give a point's name or a list of block indices")
    skip = SkipSet.of(point).validate(result["target"]["num_layers"], field)
    if skip.blocks and all(tuple(row["skip"]) != skip.blocks for row in result["evaluations"]):
        raise InvalidInput(
            field,
            f"{skip} was not evaluated by this job; choose one of its {len(result['evaluations'])} rows",
        )
    return skip


def chosen_reason(result: Mapping[str, Any], point: Point) -> str:
    """Why a map holds the point, in words."""
    skip = chosen_skip(result, point)
    if skip.to_list() == result["selected"]:
        return str(result["reason"])
    if not skip.blocks:
        return "dense, chosen by the publisher"
    return (
        f"{point} of the job's operating points, chosen by the publisher"
        if isinstance(point, str)
        else ("a configuration of the job, chosen by the publisher")
    )


def held_out_point(result: Mapping[str, Any], skip: SkipSet) -> Mapping[str, Any] | None:
    """The held-out figures of a skip set; None where it was not checked."""
    return next((p for p in result["held_out"]["points"] if p["skip"] == skip.to_list()), None)
