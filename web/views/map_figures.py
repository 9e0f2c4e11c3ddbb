"""Figures of an operating point: calibration beside held-out, dense beside sparse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from skipmap.client.maps import DomainView
from skipmap.maps.schema import PointFigures
from skipmap.maps.verdict import Verdict, verdict_of_point
from web.views.held_out import gate_mark

Point = DomainView | PointFigures
Form = Literal["number", "ratio"]


@dataclass(frozen=True)
class Side:
    """A figure of the dense target and of the sparse one; None where it was not measured."""

    dense: float | None
    sparse: float | None

    @property
    def change(self) -> float | None:
        """Relative change."""
        return self.sparse / self.dense - 1 if self.dense and self.sparse is not None else None


@dataclass(frozen=True)
class Figure:
    """One figure. ``interval``: 95 %, of sparse minus dense on held-out prompts, or of the ratio where it is one."""

    label: str
    form: Form
    calibration: Side
    held_out: Side
    interval: tuple[float, float] | None

    @property
    def has_change(self) -> bool:
        """Whether dense and sparse are to be compared; a ratio is a comparison already."""
        return self.form == "number"


_NONE = Side(None, None)


def figures(point: Point) -> list[Figure]:
    """All figures of a point."""
    held_out = point.held_out
    intervals: Mapping[str, tuple[float, float]] = {} if held_out is None else held_out.intervals
    return [
        Figure(
            "Accept length (tokens a step)",
            "number",
            Side(point.accept_length.dense, point.accept_length.sparse),
            _NONE if held_out is None else Side(held_out.accept_length.dense, held_out.accept_length.sparse),
            intervals.get("accept_length_change"),
        ),
        Figure(
            point.metric.name,
            "number",
            Side(point.metric.dense, point.metric.sparse),
            _NONE if held_out is None else Side(held_out.metric.dense, held_out.metric.sparse),
            intervals.get("metric_change"),
        ),
        Figure("Cost of a step", "ratio", Side(None, point.cost_ratio), _NONE, None),
        Figure(
            "Speed-up",
            "ratio",
            Side(None, point.speedup),
            _NONE if held_out is None else Side(None, held_out.speedup),
            intervals.get("speedup"),
        ),
    ]


def verdict(point: Point) -> Verdict:
    """What held-out prompts say of a point of a map."""
    return verdict_of_point(point.skip, point.held_out)


def speedup_chart(domains: Mapping[str, Point], links: Mapping[str, str]) -> dict[str, object] | None:
    """Held-out speed-ups by domain for a chart; None when none was measured."""
    values = [
        {
            "category": name,
            "value": point.held_out.speedup,
            "low": bounds[0] if bounds else None,
            "high": bounds[1] if bounds else None,
            **gate_mark(verdict(point)),
            "url": links[name],
        }
        for name, point in domains.items()
        if point.held_out is not None and point.held_out.speedup is not None
        for bounds in (point.held_out.intervals.get("speedup"),)
    ]
    if not values:
        return None
    return {
        "unit": "\N{MULTIPLICATION SIGN}",
        "reference": 1.0,
        "categories": [value["category"] for value in values],
        "series": [{"name": "Speed-up on held-out prompts", "values": values}],
    }
