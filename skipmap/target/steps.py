"""StepPass: one forward of new tokens on top of what a batch holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from skipmap.target.attention import attend, attend_row
from skipmap.target.batch import Batch
from skipmap.target.detour import STRAIGHT, Detour
from skipmap.target.masks import Visibility, parts, row_parts
from skipmap.target.passes import Block
from skipmap.target.spread import Spread, spread

ALONE_ON = frozenset({"cpu"})
"""Devices on which unequal rows attend one by one."""


@dataclass
class StepPass:
    """New tokens of some rows; hidden states are [n, t, width], or [1, tokens, width] where counts are unequal."""

    batch: Batch
    rows: Tensor
    """Rows of the batch that take part, [n], ascending (CPU)."""
    slots: Tensor
    """Slot that each new token is written to, [n, t] (CPU)."""
    counts: Tensor
    """Real tokens of each row, [n] (CPU)."""
    in_use: int
    """Slots that any row reads, new ones included."""
    masks: dict[str, Visibility]
    calls: list[int]
    capture: frozenset[int] = frozenset()
    ahead: int = 0
    """Slots in use behind each row's committed ones, written by earlier forwards."""
    detour: Detour = STRAIGHT
    captured: dict[int, Tensor] = field(default_factory=dict)
    ran: list[int] = field(default_factory=list)
    _spreads: dict[tuple[int, ...], Spread] = field(default_factory=dict)

    def through(self, index: int, block: Block, hidden: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """Run the block for the rows that do not skip it; the others keep their hidden state."""
        hidden = self.detour.entering(index, hidden)
        if index in self.capture:
            self.captured[index] = hidden
        running = self.batch.lineage.blocks[index].running
        if not running or self.detour.without.hold(index):
            return hidden
        inside = self._spread(running).inside
        if inside is not None and not len(inside):
            return hidden
        self.calls[index] += 1
        self.ran.append(index)
        with self.detour.around(index, block, self._owners(inside)):
            out = self._run(block, hidden, inside, kwargs)
        return self.detour.leaving(index, hidden, out)

    def _owners(self, inside: Tensor | None) -> Tensor | None:
        """Row of each position that enters a block, where rows go different ways; ``inside`` as ``Spread`` has it."""
        if not self.detour.apart:
            return None
        rows = torch.arange(len(self.rows))
        if not self._is_ragged:
            return (rows if inside is None else rows[inside.cpu()])[:, None]
        rows = rows.repeat_interleave(self.counts)
        return (rows if inside is None else rows[inside.cpu()])[None]

    def _run(self, block: Block, hidden: Tensor, inside: Tensor | None, kwargs: dict[str, Any]) -> Tensor:
        if inside is None:
            return block(hidden, **kwargs)
        part: Any = (slice(None), inside) if self._is_ragged else inside
        cos, sin = kwargs["position_embeddings"]
        kwargs = kwargs | {"position_embeddings": (cos[part], sin[part])}
        out = hidden.clone()
        out[part] = block(hidden[part], **kwargs)
        return out

    def attend(self, index: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Write the new slots, then attend."""
        line, store = self.batch.lineage.blocks[index], self.batch.stores[index]
        assert store.slots is not None
        spread = self._spread(line.running)
        if self._is_ragged:
            # One row of all tokens -> one position of many rows.
            query, keys, values = (x.permute(2, 1, 0, 3) for x in (query, keys, values))
        if self.detour is not STRAIGHT:
            # A draft may overflow, and what it leaves behind is hidden, not gone: it must be finite.
            keys, values = (x.nan_to_num(0.0, 0.0, 0.0) for x in (keys, values))
        for kept, new in ((store.slots.keys, keys), (store.slots.values, values)):
            kept.flatten(0, 1)[spread.grid, :, spread.slots] = new.transpose(1, 2)
        if self._attends_alone:
            out = self._one_by_one(index, query, spread, scaling)
        else:
            out = self._on_grid(index, query, spread, scaling)
        return out.permute(2, 1, 0, 3) if self._is_ragged else out

    def _one_by_one(self, index: int, query: Tensor, spread: Spread, scaling: float) -> Tensor:
        masks = self.masks[self.batch.geometry.block_types[index]]
        if not self._is_ragged:
            segments = row_parts(self.batch, index, 0, 0, query.shape[2], masks, self.ahead)
            return attend_row(query[0], segments, scaling)[None]
        out = torch.empty_like(query)
        for row in spread.rows:
            count = row.stop - row.start
            segments = row_parts(self.batch, index, row.config, row.prompt, count, masks, self.ahead)
            mine = query[row.start : row.stop, :, 0].transpose(0, 1)
            out[row.start : row.stop, :, 0] = attend_row(mine, segments, scaling).transpose(0, 1)
        return out

    def _on_grid(self, index: int, query: Tensor, spread: Spread, scaling: float) -> Tensor:
        """Attend on the block's grid of running rows; ``query`` [rows, heads, tokens, head_dim]."""
        batch, line = self.batch, self.batch.lineage.blocks[index]
        size = len(line.running) * batch.prompts
        full = query
        if not spread.whole:
            full = query.new_zeros((size, query.shape[1], self.slots.shape[1], query.shape[3]))
            full[spread.grid, :, spread.columns] = query.transpose(1, 2)
        shaped = full.view(len(line.running), batch.prompts, *full.shape[1:])
        masks = self.masks[batch.geometry.block_types[index]]
        segments = parts(batch.stores[index], line, masks, self.in_use, batch.configurations)
        out = attend(shaped, segments, scaling).flatten(0, 1)
        return out if spread.whole else out[spread.grid, :, spread.columns].transpose(1, 2)

    @cached_property
    def _is_ragged(self) -> bool:
        return int(self.counts.min()) < self.slots.shape[1]

    @property
    def _attends_alone(self) -> bool:
        """Whether rows attend one by one: a CPU is no slower for it, and a grid of unequal rows is mostly padding."""
        return self.batch.geometry.device.type in ALONE_ON and (self._is_ragged or self.batch.rows == 1)

    def _spread(self, running: tuple[int, ...]) -> Spread:
        if running not in self._spreads:
            self._spreads[running] = spread(self.batch, self.rows, running, self.slots, self.counts)
        return self._spreads[running]
