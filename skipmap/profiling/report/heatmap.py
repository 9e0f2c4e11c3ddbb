"""Heat map of single blocks: how accept length and metric change when one block alone is skipped.

Colours are classes of change, symmetric about zero, so that a block near the floor differs visibly from one that is
fine even where another block loses everything. Positions across are percent of the width, those down are pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipmap.profiling.report import figures
from skipmap.profiling.report.view import Row, View
from skipmap.skipset import SkipSet

CLASS_EDGES = (0.01, 0.05, 0.10, 0.25, 0.50)
"""Changes in size that begin a deeper colour."""

_WIDE_BAND, _NARROW_BAND = 32, 10
_ROW_HEIGHT, _NUMBER_HEIGHT, _BAND_GAP = 30, 22, 18


@dataclass(frozen=True)
class Cell:
    """One block's change in one figure. ``tone``: g1..g5 gain, l1..l5 loss, n none, missing when not evaluated."""

    tone: str
    text: str
    title: str
    below_floor: bool

    @property
    def deep(self) -> bool:
        """Whether marks on the cell need the contrasting colour."""
        return self.tone[1:] in ("4", "5")


@dataclass(frozen=True)
class BlockColumn:
    """One block with both cells; ``note`` says in words what the marks show."""

    block: int
    kind: str
    accept: Cell
    metric: Cell
    row: Row | None
    pool: str
    selected: bool


@dataclass(frozen=True)
class Band:
    """A run of blocks side by side, ``top`` pixels down; ``step`` is a column's width in percent."""

    columns: tuple[BlockColumn, ...]
    top: int
    step: float


@dataclass(frozen=True)
class Layout:
    """Bands of one width of page. ``lines``: name of each row -> its offset within a band."""

    name: str
    bands: tuple[Band, ...]
    lines: dict[str, int]
    row_height: int
    height: int

    @property
    def band_height(self) -> int:
        """Height of a band, from its numbers to the end of its last row."""
        return max(self.lines.values()) + self.row_height


@dataclass(frozen=True)
class HeatMap:
    """What the template draws and tabulates."""

    columns: tuple[BlockColumn, ...]
    layouts: tuple[Layout, ...]
    legend: tuple[tuple[str, str], ...]
    kinds: tuple[tuple[str, str], ...]
    accept_unit: str
    metric_unit: str
    missing: int
    description: str


def heat_map(view: View) -> HeatMap | None:
    """The map, or None when no single block was evaluated."""
    rows = [view.by_skip.get(SkipSet((block,))) for block in range(view.num_layers)]
    if not any(rows):
        return None
    columns = tuple(_column(view, block, row) for block, row in enumerate(rows))
    lines = ["accept", "metric", *(["pool"] if view.strategy.has_pool else [])]
    if view.is_hybrid:
        lines.insert(0, "type")
    return HeatMap(
        columns,
        tuple(
            _layout(name, columns, lines, most)
            for name, most in (("wide", _WIDE_BAND), ("narrow", _NARROW_BAND))
        ),
        _legend(),
        tuple((_kind_mark(kind), kind) for kind in dict.fromkeys(view.block_types)) if view.is_hybrid else (),
        _unit(view.dense.accept),
        _unit(view.dense.metric),
        rows.count(None),
        _describe(view, [row for row in rows if row]),
    )


def tone(change: float) -> str:
    """Colour class of a change."""
    depth = sum(abs(change) >= edge for edge in CLASS_EDGES)
    return "n" if depth == 0 else f"{'g' if change > 0 else 'l'}{depth}"


def _column(view: View, block: int, row: Row | None) -> BlockColumn:
    in_pool = view.strategy.has_pool and block in view.pool
    pool = "pool" if in_pool else "cut" if block in view.pool_cut else "out"
    kind = _kind_mark(view.block_types[block])
    return BlockColumn(
        block,
        kind,
        _cell(
            view.accept_name,
            block,
            row,
            view.dense,
            lambda r: r.accept,
            figures.accept,
            view.limits.accept,
            row is not None and not view.limits.admits_accept(row.score),
        ),
        _cell(
            view.metric_name,
            block,
            row,
            view.dense,
            lambda r: r.metric,
            figures.metric,
            view.limits.metric,
            row is not None and not view.limits.admits_metric(row.score),
        ),
        row,
        pool,
        block in view.selected,
    )


def _cell(
    name: str,
    block: int,
    row: Row | None,
    dense: Row,
    figure: Callable[[Row], float],
    written: Callable[[float | None], str],
    floor: float,
    below: bool,
) -> Cell:
    if row is None:
        return Cell("missing", "", f"block {block}: not evaluated", False)
    new, old = figure(row), figure(dense)
    part = figures.relative(new, old)
    change = new - old if part is None else part
    told = figures.signed_percent(part) if part is not None else figures.signed(change, 4)
    verdict = "below" if below else "keeps"
    return Cell(
        tone(change),
        _short(100 * part) if part is not None else figures.signed(change, 2),
        f"block {block} skipped: {name} {written(new)} ({told} against dense {written(old)}); "
        f"{verdict} the floor {written(floor)}",
        below,
    )


def _short(percent: float) -> str:
    if abs(percent) < 999.5:
        return figures.signed(percent, 0)
    return f"{figures.signed(percent / 1000, 0)}k"


def _unit(dense: float) -> str:
    return "change in %" if dense else "absolute change (dense is 0), scale in hundredths"


def _kind_mark(kind: str) -> str:
    return kind[:1].upper()


def _layout(name: str, columns: tuple[BlockColumn, ...], lines: list[str], most: int) -> Layout:
    bands = -(-len(columns) // most)
    width = -(-len(columns) // bands)
    band_height = _NUMBER_HEIGHT + _ROW_HEIGHT * len(lines) + _BAND_GAP
    return Layout(
        name,
        tuple(
            Band(columns[start : start + width], number * band_height, round(100 / width, 4))
            for number, start in enumerate(range(0, len(columns), width))
        ),
        {line: _NUMBER_HEIGHT + _ROW_HEIGHT * index for index, line in enumerate(lines)},
        _ROW_HEIGHT,
        bands * band_height - _BAND_GAP,
    )


def _legend() -> tuple[tuple[str, str], ...]:
    """Tones from deepest loss to deepest gain, each with the edge on its right in percent."""
    edges = [f"{100 * edge:.0f}" for edge in CLASS_EDGES]
    depths = range(1, len(edges) + 1)
    tones = [*(f"l{depth}" for depth in reversed(depths)), "n", *(f"g{depth}" for depth in depths)]
    texts = [*(f"{figures.MINUS}{edge}" for edge in reversed(edges)), *(f"+{edge}" for edge in edges), ""]
    return tuple(zip(tones, texts, strict=True))


def _describe(view: View, rows: list[Row]) -> str:
    accept = sum(view.limits.admits_accept(row.score) for row in rows)
    metric = sum(view.limits.admits_metric(row.score) for row in rows)
    both = sum(row.feasible for row in rows)
    return (
        f"Of {figures.count(len(rows), 'block')} skipped one at a time, {accept} keep the floor of "
        f"{view.accept_name}, {metric} keep the floor of {view.metric_name}, {both} keep both."
    )
