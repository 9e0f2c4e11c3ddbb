"""Scatter of accept length against metric: floors, feasible box, front, dense and the selected point."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from skipmap.profiling.pareto import Score
from skipmap.profiling.report import figures
from skipmap.profiling.report.axis import Axis, Tick
from skipmap.profiling.report.view import Row, View

MOST_MARKS = 3000
SHAPES = ("circle", "triangle", "square", "diamond", "pentagon")
"""Marker of levels 1, 2, 3, 4, and 5 or more."""


@dataclass(frozen=True)
class Mark:
    """A configuration at (x, y) in percent, y from the top; ``outside`` the drawn range it stands at the rim."""

    x: float
    y: float
    shape: str
    feasible: bool
    on_front: bool
    outside: bool
    title: str


@dataclass(frozen=True)
class Label:
    """A text beside a mark that keeps inside the plot."""

    x: float
    y: float
    text: str
    anchor: str
    dx: int
    dy: int


@dataclass(frozen=True)
class Scatter:
    """What the template draws. ``floor_x``, ``floor_y``: the feasible box reaches from them to the upper right."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    dense: Label
    selected: Label | None
    floor_x: float
    floor_y: float
    front: tuple[tuple[float, float, float, float], ...]
    levels: tuple[tuple[str, str], ...]
    left_out: int
    outside: int
    description: str


def scatter(view: View) -> Scatter | None:
    """The scatter, or None when nothing beside dense was evaluated."""
    if not view.rows:
        return None

    def order(row: Row) -> tuple[bool, bool, int]:
        if row.skip in view.front or row.skip == view.selected:
            return (False, False, 0)
        return (True, not row.feasible, row.level)

    drawn = sorted(view.rows, key=order)[:MOST_MARKS]
    needed = [view.dense.score, Score(view.limits.accept, view.limits.metric)]
    needed += [row.score for row in drawn if row.feasible]
    x_axis = Axis.without_outliers([s.accept for s in needed], [row.accept for row in drawn])
    y_axis = Axis.without_outliers([s.metric for s in needed], [row.metric for row in drawn])

    def place(row: Row) -> tuple[float, float]:
        return x_axis.position(row.accept), round(100 - y_axis.position(row.metric), 4)

    def outside(row: Row) -> bool:
        return not (x_axis.holds(row.accept) and y_axis.holds(row.metric))

    joined = sorted((row for row in drawn if row.skip in view.front), key=lambda row: row.accept)
    chosen = view.by_skip.get(view.selected) if view.selected.blocks else None
    levels = sorted({min(row.level, len(SHAPES)) for row in drawn})
    return Scatter(
        x_axis.ticks(),
        tuple(Tick(round(100 - tick.position, 4), tick.label) for tick in y_axis.ticks()),
        tuple(
            Mark(
                *place(row),
                _shape(row.level),
                row.feasible,
                row.skip in view.front,
                outside(row),
                _title(view, row),
            )
            # Feasible ones last, so that they lie on top.
            for row in sorted(drawn, key=lambda row: (row.feasible, row.skip in view.front))
        ),
        _side_label("dense", *place(view.dense)),
        _label(f"selected {chosen.skip}", *place(chosen)) if chosen else None,
        x_axis.position(view.limits.accept),
        round(100 - y_axis.position(view.limits.metric), 4),
        tuple((*place(a), *place(b)) for a, b in pairwise(joined)),
        tuple((_shape(level), _level_text(level)) for level in levels),
        len(view.rows) - len(drawn),
        sum(map(outside, drawn)),
        _describe(view, drawn),
    )


def _shape(level: int) -> str:
    return SHAPES[min(level, len(SHAPES)) - 1]


def _level_text(level: int) -> str:
    return f"{level}+ blocks" if level == len(SHAPES) else figures.count(level, "block")


def _side_label(text: str, x: float, y: float) -> Label:
    # Beside dense, since the floors run just below and left of it; at the right rim the label changes sides.
    return Label(x, y, text, "end", -11, 5) if x > 85 else Label(x, y, text, "start", 11, 5)


def _label(text: str, x: float, y: float) -> Label:
    dy = 25 if y < 8 else -16
    if x > 75:
        return Label(x, y, text, "end", 10, dy)
    return Label(x, y, text, "start", -10, dy) if x < 25 else Label(x, y, text, "middle", 0, dy)


def _title(view: View, row: Row) -> str:
    missed = view.missed_floors(row)
    verdict = "feasible" if row.feasible else f"below the floor of {' and '.join(missed)}"
    cost = "" if row.cost_ratio is None else f", cost {figures.ratio(row.cost_ratio)}"
    return (
        f"skip {row.skip}: {view.accept_name} {figures.accept(row.accept)} "
        f"({figures.signed_percent(view.accept_change(row))}), {view.metric_name} {figures.metric(row.metric)} "
        f"({figures.signed_percent(view.metric_change(row))}){cost}; {verdict}"
    )


def _describe(view: View, drawn: list[Row]) -> str:
    feasible = sum(row.feasible for row in drawn)
    return (
        f"{figures.count(len(drawn), 'configuration')}; {feasible} of them in the feasible box, which begins at "
        f"{view.accept_name} {figures.accept(view.limits.accept)} and {view.metric_name} "
        f"{figures.metric(view.limits.metric)}. Dense is at {figures.accept(view.dense.accept)} and "
        f"{figures.metric(view.dense.metric)}."
    )
