"""Rows of the report's tables: configurations, operating points, held-out figures."""

from __future__ import annotations

from dataclasses import dataclass

from skipmap.profiling.report.view import HeldOut, Row, View
from skipmap.skipset import SkipSet

MOST_ROWS = 200
_RULES = {
    "paper": "lowest cost on the Pareto front",
    "cheapest": "lowest cost of all {choice}",
    "fastest": "largest accept length over cost of all {choice}",
}


@dataclass(frozen=True)
class Configurations:
    """The first rows and how many more there are. ``by_gain``: ordered by expected speed-up."""

    rows: tuple[Row, ...]
    total: int
    by_gain: bool

    @property
    def evaluators(self) -> tuple[str, ...]:
        """How the rows were evaluated."""
        return tuple(sorted({row.evaluator for row in self.rows}))

    @property
    def uniform(self) -> bool:
        """Whether all rows were evaluated alike, so that a column would say nothing."""
        return len(self.evaluators) == 1 and not any(row.batch_split for row in self.rows)

    @property
    def left_out(self) -> int:
        """Rows that the table does not show."""
        return self.total - len(self.rows)


@dataclass(frozen=True)
class OperatingPoint:
    """Named points that fall on one configuration; without a row there was nothing to choose from."""

    names: tuple[str, ...]
    rules: tuple[str, ...]
    row: Row | None
    held_out: HeldOut | None
    chosen: bool


def configurations(view: View) -> Configurations:
    """What points are chosen from first; within it by expected speed-up, or accept length where cost is not known."""

    def order(row: Row) -> tuple[bool, float, float, SkipSet]:
        gain = view.gain(row)
        return (not row.admitted, -(row.accept if gain is None else gain), -row.metric, row.skip)

    rows = sorted(view.rows, key=order)
    by_gain = bool(rows) and all(view.gain(row) is not None for row in rows)
    return Configurations(tuple(rows[:MOST_ROWS]), len(rows), by_gain)


def operating_points(view: View) -> tuple[OperatingPoint, ...]:
    """The named points, those of one configuration together."""
    grouped: dict[SkipSet | None, list[str]] = {}
    for name, skip in view.points.items():
        grouped.setdefault(skip, []).append(name)
    return tuple(
        OperatingPoint(
            tuple(names),
            tuple(_RULES.get(name, "").format(choice=view.choice) for name in names),
            None if skip is None else view.by_skip.get(skip),
            None if skip is None else view.held_out_of(skip),
            view.search["select"] in names,
        )
        for skip, names in grouped.items()
    )


def marks(view: View, row: Row) -> tuple[str, ...]:
    """What sets a configuration apart."""
    found = (("selected", row.skip == view.selected), ("on the front", row.skip in view.front))
    return tuple(word for word, holds in found if holds)
