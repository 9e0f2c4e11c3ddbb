"""Where the new tokens of a step lie, and which of them attend together.

Rows with unequal numbers of tokens go through the linear layers as one sequence of real tokens. Attention then works
on a grid of rows with padding, or row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from skipmap.target.batch import Batch, Place


@dataclass(frozen=True)
class RunningRow:
    """A row that runs a block: its tokens [start, stop) among the running ones, configuration and prompt."""

    start: int
    stop: int
    config: int
    prompt: int


@dataclass(frozen=True)
class Spread:
    """The tokens of a step for one set of running configurations, [rows, tokens] each.

    ``inside``: rows that run the block, or tokens where rows go as one sequence (None: all); ``grid``: their row on
    the block's grid; ``columns``: their place among the row's new tokens; ``slots``: where their keys and values go;
    ``whole``: they are the grid as it stands. ``rows``: the rows of tokens that go as one sequence.
    """

    inside: Tensor | None
    grid: Tensor
    columns: Tensor
    slots: Tensor
    whole: bool
    rows: tuple[RunningRow, ...] = ()


def real_tokens(counts: Tensor, width: int) -> Tensor | None:
    """Places of the real tokens on a [rows, width] grid, ascending; None where all are real."""
    if int(counts.min()) == width:
        return None
    return (torch.arange(width) < counts[:, None]).flatten().nonzero()[:, 0]


def spread(batch: Batch, rows: Tensor, running: tuple[int, ...], slots: Tensor, counts: Tensor) -> Spread:
    """Spread of the tokens of ``rows`` over the configurations that run a block.

    ``slots`` [n, t] of all rows; ``counts`` [n].
    """
    places = batch.places_of(rows)
    if running not in places:
        places[running] = _place(rows, running, batch)
    inside, grid, whole = places[running]
    device, t = batch.geometry.device, slots.shape[1]
    real = real_tokens(counts, t)
    mine = slots if inside is None else slots[inside]
    if real is None:
        columns = torch.arange(t).expand(mine.shape)
        part = None if inside is None else inside.to(device)
        return Spread(part, grid[:, None].to(device), columns.to(device), mine.to(device), whole)
    row, column = real // t, real % t
    local = torch.arange(len(rows))
    if inside is not None:
        local = torch.full_like(local, -1)
        local[inside] = torch.arange(len(inside))
    local = local[row]
    there = (local >= 0).nonzero()[:, 0]
    local, column = local[there][:, None], column[there][:, None]
    kept = slice(None) if inside is None else inside
    return Spread(
        None if inside is None else there.to(device),
        grid[local].to(device),
        column.to(device),
        mine[local, column].to(device),
        whole=False,
        rows=_running_rows(rows[kept], counts[kept], batch),
    )


def _running_rows(rows: Tensor, counts: Tensor, batch: Batch) -> tuple[RunningRow, ...]:
    found, start = [], 0
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        found.append(RunningRow(start, start + count, *divmod(row, batch.prompts)))
        start += count
    return tuple(found)


def _place(rows: Tensor, running: Sequence[int], batch: Batch) -> Place:
    local = torch.full((batch.configurations,), -1)
    local[list(running)] = torch.arange(len(running))
    config, prompt = rows // batch.prompts, rows % batch.prompts
    own = local[config]
    runs = own >= 0
    grid = own[runs] * batch.prompts + prompt[runs]
    inside = None if bool(runs.all()) else runs.nonzero()[:, 0]
    return inside, grid, len(grid) == len(running) * batch.prompts
