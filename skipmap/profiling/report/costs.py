"""Cost of a verification step against sparsity: the fitted ratio of evaluated sizes beside the timed ones."""

from __future__ import annotations

from dataclasses import dataclass

from skipmap.profiling.report import figures
from skipmap.profiling.report.axis import Axis, Tick
from skipmap.profiling.report.view import View
from skipmap.skipset import SkipSet

_DENSE_TEXT = "{}"


@dataclass(frozen=True)
class CostPoint:
    """Cost of one size. ``timed``: measured directly, else from the fitted model. x and y in percent."""

    skipped: int
    sparsity: float
    ratio: float
    timed: bool
    x: float
    y: float
    title: str


@dataclass(frozen=True)
class CostPlot:
    """What the template draws and tabulates."""

    points: tuple[CostPoint, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    description: str


def cost_plot(view: View) -> CostPlot | None:
    """The plot, or None when cost was not measured or for one size only."""
    found = sorted(_fitted(view) | _timed(view))
    if len({skipped for skipped, _, timed in found if skipped}) < 2:
        return None
    x_axis = Axis.covering([0.0, *(100 * skipped / view.num_layers for skipped, _, _ in found)])
    y_axis = Axis.covering([1.0, *(ratio for _, ratio, _ in found)])
    points = tuple(_point(view, x_axis, y_axis, *entry) for entry in found)
    lowest = min(points, key=lambda point: point.ratio)
    return CostPlot(
        points,
        x_axis.ticks(),
        tuple(Tick(round(100 - tick.position, 4), tick.label) for tick in y_axis.ticks()),
        f"Cost relative to dense at {len({p.skipped for p in points})} sizes; lowest {figures.ratio(lowest.ratio)} "
        f"with {figures.count(lowest.skipped, 'block')} of {view.num_layers} skipped.",
    )


def _fitted(view: View) -> set[tuple[int, float, bool]]:
    return {
        (row.level, row.cost_ratio, False) for row in (view.dense, *view.rows) if row.cost_ratio is not None
    }


def _timed(view: View) -> set[tuple[int, float, bool]]:
    cost = view.document["cost"]
    measured = dict(cost["measured"]) if cost else {}
    dense = measured.pop(_DENSE_TEXT, None)
    if not dense:
        return set()
    return {
        (len(SkipSet.parse(text, "cost.measured")), value / dense, True) for text, value in measured.items()
    }


def _point(view: View, x_axis: Axis, y_axis: Axis, skipped: int, ratio: float, timed: bool) -> CostPoint:
    sparsity = skipped / view.num_layers
    how = "timed" if timed else "fitted"
    return CostPoint(
        skipped,
        sparsity,
        ratio,
        timed,
        x_axis.position(100 * sparsity),
        round(100 - y_axis.position(ratio), 4),
        f"{figures.count(skipped, 'block')} skipped ({figures.percent(sparsity)}): cost {figures.ratio(ratio)} ({how})",
    )
