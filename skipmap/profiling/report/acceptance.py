"""What drafts get accepted: accepted tokens a step, and acceptance by draft position, dense beside selected.

Bars lie on their side. Their lengths are percent of the plot's width, positions down are pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from skipmap.profiling.drafting import Drafting
from skipmap.profiling.report import figures
from skipmap.profiling.report.view import View

FEW_STEPS = 30
"""Fewer steps than this make a rough share; such bars are drawn hollow."""

_ALL_APART, _FIRST_RANGE = 12, 8
_BAR, _PITCH, _GAP = 11, 15, 9

Kind = Literal["dense", "selected"]


@dataclass(frozen=True)
class Side:
    """Dense or the selected set on one part of the data."""

    kind: Kind
    name: str
    drafting: Drafting


@dataclass(frozen=True)
class Bar:
    """One side's bar. ``pale``: the end of ``width`` that stands for steps without a draft."""

    kind: Kind
    top: int
    width: float
    pale: float
    few: bool
    text: str
    title: str


@dataclass(frozen=True)
class Group:
    """Bars of all sides for one value or range of values; ``middle`` is where its label stands."""

    label: str
    middle: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Chart:
    """Groups from the top down. ``thickness``: of a bar, in pixels."""

    groups: tuple[Group, ...]
    height: int
    thickness: int
    description: str

    @property
    def has_few(self) -> bool:
        """Whether any bar rests on few steps."""
        return any(bar.few for group in self.groups for bar in group.bars)

    @property
    def has_pale(self) -> bool:
        """Whether any bar counts steps without a draft."""
        return any(bar.pale for group in self.groups for bar in group.bars)


@dataclass(frozen=True)
class Acceptance:
    """What the template draws and tabulates; ``values`` and ``positions`` are the rows of the tables."""

    sides: tuple[Side, ...]
    accepted: Chart
    by_position: Chart | None
    values: tuple[int, ...]
    positions: tuple[int, ...]
    lead: str


def acceptance(view: View) -> Acceptance | None:
    """Charts of the calibration part's drafting counters, or None for a result without them."""
    chosen = view.by_skip.get(view.selected)
    sides = sides_of(view, view.dense.drafting, chosen.drafting if chosen else None)
    if not sides:
        return None
    deepest = max(side.drafting.deepest for side in sides)
    most = max(side.drafting.most_accepted for side in sides)
    return Acceptance(
        sides,
        _accepted_chart(sides, most),
        _position_chart(sides, deepest) if deepest else None,
        tuple(v for v in range(most + 1) if any(side.drafting.accepting(v, v) for side in sides)),
        tuple(range(1, deepest + 1)),
        " ".join(_told(side) for side in sides),
    )


def sides_of(view: View, dense: Drafting | None, selected: Drafting | None) -> tuple[Side, ...]:
    """Those of both that have counters; dense alone where nothing else is selected."""
    sides = [Side("dense", "dense", dense)] if dense else []
    if selected and view.selected.blocks:
        sides.append(Side("selected", f"selected {view.selected}", selected))
    return tuple(sides)


def ranges(largest: int) -> tuple[tuple[int, int], ...]:
    """Values 0 to ``largest`` one by one; in a long tail, ranges that double from 8 on."""
    if largest <= _ALL_APART:
        return tuple((value, value) for value in range(largest + 1))
    found = [(value, value) for value in range(_FIRST_RANGE)]
    low = _FIRST_RANGE
    while low <= largest:
        found.append((low, min(2 * low - 1, largest)))
        low *= 2
    return tuple(found)


def landmarks(deepest: int) -> tuple[int, ...]:
    """Positions 1 to ``deepest``; of long drafts 1 to 8, then 12, 16, 24, 32, 48 and so on."""
    if deepest <= _ALL_APART:
        return tuple(range(1, deepest + 1))
    found = list(range(1, _FIRST_RANGE))
    step = _FIRST_RANGE
    while step <= deepest:
        found += [position for position in (step, step + step // 2) if position <= deepest]
        step *= 2
    return tuple(found)


def length(value: float, whole: float) -> float:
    """Percent of the plot's width."""
    return round(100 * value / whole, 4)


def _told(side: Side) -> str:
    counts = side.drafting
    size = counts.tree_size
    scored = "" if size is None else f"scores {figures.accept(size)} positions, root included, and "
    return (
        f"{side.name[0].upper()}{side.name[1:]}: a step {scored}accepts {figures.accept(counts.mean_accepted)} "
        f"drafted tokens on average; {counts.undrafted:,} of {figures.count(counts.steps, 'step')} had no draft."
    )


def _accepted_chart(sides: Sequence[Side], most: int) -> Chart:
    groups = {_range(low, high): (low, high) for low, high in ranges(most)}
    scale = max(side.drafting.share(*group) for side in sides for group in groups.values())

    def bar(side: Side, label: str, top: int) -> Bar:
        counts, group = side.drafting, groups[label]
        steps, share = counts.accepting(*group), counts.share(*group)
        undrafted = counts.undrafted if group[0] == 0 else 0
        title = (
            f"{side.name}: {steps:,} of {figures.count(counts.steps, 'step')} ({figures.percent(share)}) "
            f"accepted {label}"
        )
        return Bar(
            side.kind,
            top,
            length(share, scale),
            length(undrafted / counts.steps, scale),
            counts.steps < FEW_STEPS,
            figures.percent(share),
            f"{title}; {undrafted:,} of them had no draft" if undrafted else title,
        )

    told = "; ".join(
        f"{side.name}: {figures.percent(side.drafting.share(0, 0))} of {figures.count(side.drafting.steps, 'step')} "
        f"accept no drafted token, the best step accepts {side.drafting.most_accepted}"
        for side in sides
    )
    return _chart(list(groups), sides, bar, f"{told}.")


def _position_chart(sides: Sequence[Side], deepest: int) -> Chart:
    def bar(side: Side, label: str, top: int) -> Bar:
        share, steps = side.drafting.acceptance_at(int(label)), side.drafting.drafted_at(int(label))
        if share is None:
            return Bar(side.kind, top, 0, 0, False, figures.NONE, f"{side.name}: no draft reached {label}")
        return Bar(
            side.kind,
            top,
            length(share, 1),
            0,
            steps < FEW_STEPS,
            f"{figures.percent(share)} of {steps:,}",
            f"{side.name}: {figures.count(steps, 'step')} drafted a token at position {label}, "
            f"{figures.percent(share)} of them accepted it",
        )

    told = "; ".join(
        f"{side.name}: {figures.percent(side.drafting.acceptance_at(1))} at position 1, the deepest draft reaches "
        f"position {side.drafting.deepest}"
        for side in sides
    )
    return _chart([str(position) for position in landmarks(deepest)], sides, bar, f"{told}.")


def _chart(
    labels: Sequence[str], sides: Sequence[Side], bar: Callable[[Side, str, int], Bar], description: str
) -> Chart:
    bars_height = _PITCH * len(sides) - (_PITCH - _BAR)
    groups = []
    for number, label in enumerate(labels):
        top = number * (_PITCH * len(sides) + _GAP)
        bars = tuple(bar(side, label, top + _PITCH * place) for place, side in enumerate(sides))
        groups.append(Group(label, top + bars_height // 2, bars))
    height = len(labels) * (_PITCH * len(sides) + _GAP) - _GAP
    return Chart(tuple(groups), height, _BAR, description)


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
