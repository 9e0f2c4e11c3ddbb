"""The table of drafting counters that ``skipmap show`` prints for a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.table import Table

from skipmap.profiling.drafting import Drafting, drafting

POSITIONS = (1, 2, 3, 4, 8)
ACCEPTED = ((0, 0), (1, 1), (2, 3), (4, 7), (8, None))
NOT_THERE = "n/a"
_CAPTION = "acceptance at position n: of the steps that drafted n or more deep, those that accepted n or more"

_Side = tuple[str, Drafting]
_Figure = Callable[[Drafting], str]


def drafting_table(document: Mapping[str, Any]) -> Table | None:
    """Dense beside the selected set, on calibration and on held-out prompts; None where a result has no counters."""
    sides = list(_sides(document))
    if not sides:
        return None
    table = Table(title="Drafting", caption=_CAPTION)
    table.add_column("")
    for name, _ in sides:
        table.add_column(name, justify="right")
    for group in _groups([side for _, side in sides]):
        for name, figure in group.items():
            table.add_row(name, *(figure(side) for _, side in sides))
        table.add_section()
    return table


def _sides(document: Mapping[str, Any]) -> Iterator[_Side]:
    selected, held_out = document["selected"], document["held_out"]
    parts = (
        ("calibration", document["dense"], document["evaluations"]),
        ("held-out", held_out["dense"], held_out["points"]),
    )
    for part, dense, points in parts:
        chosen = next((row for row in points if selected and row["skip"] == selected), None)
        for row in (dense, chosen):
            side = drafting(row) if row else None
            if row and side:
                yield f"{part}\n{_skip(row['skip'])}", side


def _skip(skip: list[int]) -> str:
    return f"skip {','.join(map(str, skip))}" if skip else "dense"


def _groups(sides: list[Drafting]) -> list[dict[str, _Figure]]:
    """Rows of each part of the table, as far as any side reaches."""
    deepest = max(side.deepest for side in sides)
    most = max(side.most_accepted for side in sides)
    totals: dict[str, _Figure] = {
        "verification steps": lambda side: str(side.steps),
        "positions scored a step": lambda side: _decimal(side.tree_size),
        "steps without a draft": lambda side: _percent(side.undrafted / side.steps),
    }
    accepted = {
        f"steps accepting {_range(low, high)} drafted": _share(low, high)
        for low, high in ACCEPTED
        if low <= most
    }
    positions = {
        f"acceptance at draft position {position}": _acceptance(position)
        for position in POSITIONS
        if position <= deepest
    }
    times: dict[str, _Figure] = {
        "drafting, ms a step": lambda side: _milliseconds(side.times.draft if side.times else None),
        "verifying, ms a step": lambda side: _milliseconds(side.times.verify if side.times else None),
    }
    groups = [totals, accepted, positions]
    return [*groups, times] if any(side.times for side in sides) else groups


def _range(low: int, high: int | None) -> str:
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"


def _share(low: int, high: int | None) -> _Figure:
    return lambda side: _percent(side.share(low, high))


def _acceptance(position: int) -> _Figure:
    def written(side: Drafting) -> str:
        part = side.acceptance_at(position)
        return NOT_THERE if part is None else f"{_percent(part)} of {side.drafted_at(position)}"

    return written


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _decimal(value: float | None) -> str:
    return NOT_THERE if value is None else f"{value:.2f}"


def _milliseconds(seconds: float | None) -> str:
    return NOT_THERE if seconds is None else f"{1000 * seconds:.3f}"
