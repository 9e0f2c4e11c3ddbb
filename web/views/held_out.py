"""Operating points on prompts that the search never saw, beside dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.chunks import skip_key
from skipmap.maps.verdict import Verdict
from skipmap.profiling.report.figures import blocks, relative
from skipmap.profiling.report.view import HeldOut, View
from web.views.layers import Address

Figure = Literal["speedup", "metric"]
Interval = tuple[float, float]


@dataclass(frozen=True)
class CheckedPoint:
    """A point on held-out prompts. Changes are against dense there; intervals are of 95 %.

    ``accept_interval`` and ``metric_interval`` are of the plain difference.
    """

    point: HeldOut
    accept_difference: float
    accept_change: float | None
    accept_interval: Interval | None
    metric_difference: float
    metric_interval: Interval | None
    speedup_interval: Interval | None
    verdict: Verdict
    is_selected: bool

    @property
    def key(self) -> str:
        """Names it in addresses."""
        return skip_key(self.point.skip)

    @property
    def label(self) -> str:
        """The layers that it skips."""
        return blocks(self.point.skip)


def checked_points(view: View) -> tuple[CheckedPoint, ...]:
    """Every point that was checked; empty where none was."""
    dense = view.held_out_dense
    return () if dense is None else tuple(_checked(view, dense, point) for point in view.held_out)


def intervals_chart(points: Sequence[CheckedPoint], figure: Figure, address: Address) -> dict[str, Any]:
    """Speed-up, or change of the metric, of each point with its interval."""
    values = []
    for checked in points:
        if figure == "speedup":
            value, ends = checked.point.speedup, checked.speedup_interval
        else:
            value, ends = checked.metric_difference, checked.metric_interval
        low, high = ends or (None, None)
        values.append(
            {
                "category": checked.label,
                "value": value,
                "low": low,
                "high": high,
                **gate_mark(checked.verdict),
                "url": address(checked.key),
            }
        )
    return {
        "unit": "\N{MULTIPLICATION SIGN}" if figure == "speedup" else "",
        "reference": 1.0 if figure == "speedup" else 0.0,
        "categories": [checked.label for checked in points],
        "series": [{"name": "Speed-up" if figure == "speedup" else "Change of the metric", "values": values}],
    }


def gate_mark(found: Verdict) -> dict[str, Any]:
    """What a chart of intervals tells of the gate at a value."""
    return {"gate": found.word, "fails": not found.passes}


def _checked(view: View, dense: HeldOut, point: HeldOut) -> CheckedPoint:
    by_tokens = view.accept_key == "accept_length"
    return CheckedPoint(
        point,
        point.accept - dense.accept,
        relative(point.accept, dense.accept),
        # What was resampled is tokens a step, whatever measure the floor uses.
        point.intervals.get("accept_length_change") if by_tokens else None,
        point.metric - dense.metric,
        point.intervals.get("metric_change"),
        point.intervals.get("speedup"),
        view.verdict(point.skip),
        bool(point.skip.blocks) and point.skip == view.selected,
    )
