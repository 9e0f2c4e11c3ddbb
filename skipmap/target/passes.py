"""One forward through the blocks: what each block runs, and where its attention reads and writes.

A pass travels with the forward as a keyword argument, so a loaded model carries no state between calls. ``Bypass``
wraps every decoder block and asks the pass whether, and for which rows, the block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from skipmap.target.attention import attend, prefill_attention
from skipmap.target.batch import Batch, Place
from skipmap.target.families import FULL
from skipmap.target.masks import Visibility, parts

ATTENTION_NAME = "skipmap_rows"
PASS_KEY = "skipmap_pass"

Block = Callable[..., Tensor]


class Pass(Protocol):
    """What ``Bypass`` and the attention function ask of a forward."""

    def through(self, index: int, block: Block, hidden: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """Run or bypass block ``index``."""
        ...

    def attend(self, index: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Store new keys and values and attend; tensors are [rows, heads, positions, head_dim]."""
        ...


class Bypass(nn.Module):
    """A decoder block that the pass may skip; identity is the one kind of bypass."""

    def __init__(self, block: nn.Module, index: int) -> None:
        super().__init__()
        self.block = block
        self.index = index

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        """Hand the block to the pass, or run it when the model is called without one."""
        current: Pass | None = kwargs.get(PASS_KEY)
        if current is None:
            plain: Tensor = self.block(hidden_states, **kwargs)
            return plain
        return current.through(self.index, self.block, hidden_states, kwargs)


def row_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention function registered with transformers; without a pass it is plain sdpa."""
    current: Pass | None = kwargs.pop(PASS_KEY, None)
    if current is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    index = module.layer_idx
    assert isinstance(index, int)
    out = current.attend(index, query, key, value, scaling or query.shape[-1] ** -0.5)
    return out.transpose(1, 2), None


AttentionInterface.register(ATTENTION_NAME, row_attention)
# Without it a call that brings no pass would get no mask at all: no padding, no sliding window.
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)


@dataclass
class PrefillPass:
    """Prompts [first, last) of a batch, or its shared prefix, once per history."""

    batch: Batch
    columns: slice
    prefix: bool
    calls: list[int]
    capture: frozenset[int] = frozenset()
    captured: dict[int, Tensor] = field(default_factory=dict)

    def through(self, index: int, block: Block, hidden: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """Run the block for the histories that take it; hidden is [histories * prompts, positions, width]."""
        if index in self.capture:
            self.captured[index] = hidden
        line = self.batch.lineage.blocks[index]
        if line.is_plain:
            self.calls[index] += 1
            return block(hidden, **kwargs)
        p = self.columns.stop - self.columns.start
        grid = hidden.view(-1, p, *hidden.shape[1:])
        if not line.ran:
            return grid[list(line.source)].flatten(0, 1)
        self.calls[index] += 1
        entering = grid[[line.source[h] for h in line.ran]].flatten(0, 1)
        ran = block(entering, **kwargs).view(-1, p, *hidden.shape[1:])
        if len(line.ran) == len(line.source):
            return ran.flatten(0, 1)
        leaving = grid[list(line.source)]
        leaving[list(line.ran)] = ran
        return leaving.flatten(0, 1)

    def attend(self, index: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Causal attention of the prompt; keys and values are kept once per history."""
        batch, store = self.batch, self.batch.stores[index]
        p = self.columns.stop - self.columns.start
        query, keys, values = (x.view(-1, p, *x.shape[1:]) for x in (query, keys, values))
        kept = store.prefix if self.prefix else store.prompts
        if kept is not None:
            length = keys.shape[3]
            kept.keys[:, self.columns, :, :length] = keys
            kept.values[:, self.columns, :, :length] = values
        before = None if self.prefix else store.prefix
        window = None if batch.geometry.block_types[index] == FULL else batch.geometry.window
        return prefill_attention(query, keys, values, before, window, scaling).flatten(0, 1)


@dataclass
class StepPass:
    """New tokens of some rows on top of what the batch holds.

    Rows with unequal numbers of tokens go through the blocks as one sequence of real tokens; only attention spreads
    them over a grid.
    """

    batch: Batch
    rows: Tensor
    """Rows of the batch that take part, [n], ascending (CPU)."""
    slots: Tensor
    """Slot that each new token is written to, [n, t] (CPU)."""
    real: Tensor | None
    """Places of the real tokens on the [n * t] grid, ascending (CPU); None where all are real."""
    in_use: int
    """Slots that any row reads, new ones included."""
    masks: dict[str, Visibility]
    calls: list[int]
    capture: frozenset[int] = frozenset()
    captured: dict[int, Tensor] = field(default_factory=dict)
    ran: list[int] = field(default_factory=list)
    _spreads: dict[tuple[int, ...], Spread] = field(default_factory=dict)

    def through(self, index: int, block: Block, hidden: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """Run the block for the rows that do not skip it; the others keep their hidden state."""
        if index in self.capture:
            self.captured[index] = hidden
        running = self.batch.lineage.blocks[index].running
        if not running:
            return hidden
        inside = self._spread(running).inside
        if inside is not None and not len(inside):
            return hidden
        self.calls[index] += 1
        self.ran.append(index)
        if inside is None:
            return block(hidden, **kwargs)
        part: Any = inside if self.real is None else (slice(None), inside)
        cos, sin = kwargs["position_embeddings"]
        kwargs = kwargs | {"position_embeddings": (cos[part], sin[part])}
        out = hidden.clone()
        out[part] = block(hidden[part], **kwargs)
        return out

    def attend(self, index: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Write the new slots, then attend on the block's grid of running rows."""
        batch, store = self.batch, self.batch.stores[index]
        line = batch.lineage.blocks[index]
        assert store.slots is not None
        spread = self._spread(line.running)
        if self.real is not None:
            # One row of all tokens -> one position of many rows.
            query, keys, values = (x.permute(2, 1, 0, 3) for x in (query, keys, values))
        for kept, new in ((store.slots.keys, keys), (store.slots.values, values)):
            kept.flatten(0, 1)[spread.grid, :, spread.slots] = new.transpose(1, 2)
        size, t = len(line.running) * batch.prompts, self.slots.shape[1]
        if not spread.whole:
            full = query.new_zeros((size, query.shape[1], t, query.shape[3]))
            full[spread.grid, :, spread.columns] = query.transpose(1, 2)
            query = full
        masks = self.masks[batch.geometry.block_types[index]]
        shaped = query.view(len(line.running), batch.prompts, *query.shape[1:])
        segments = parts(store, line, masks, self.in_use, batch.configurations)
        out = attend(shaped, segments, scaling).flatten(0, 1)
        if not spread.whole:
            out = out[spread.grid, :, spread.columns].transpose(1, 2)
        return out if self.real is None else out.permute(2, 1, 0, 3)

    def _spread(self, running: tuple[int, ...]) -> Spread:
        if running not in self._spreads:
            self._spreads[running] = self._make_spread(running)
        return self._spreads[running]

    def _make_spread(self, running: tuple[int, ...]) -> Spread:
        places = self.batch.places_of(self.rows)
        if running not in places:
            places[running] = _place(self.rows, running, self.batch)
        inside, grid, whole = places[running]
        device, t = self.batch.geometry.device, self.slots.shape[1]
        slots = self.slots if inside is None else self.slots[inside]
        if self.real is None:
            columns = torch.arange(t).expand(slots.shape)
            part = None if inside is None else inside.to(device)
            return Spread(part, grid[:, None].to(device), columns.to(device), slots.to(device), whole)
        row, column = self.real // t, self.real % t
        local = torch.arange(len(self.rows))
        if inside is not None:
            local = torch.full_like(local, -1)
            local[inside] = torch.arange(len(inside))
        local = local[row]
        there = (local >= 0).nonzero()[:, 0]
        local, column = local[there][:, None], column[there][:, None]
        part = None if inside is None else there.to(device)
        return Spread(
            part, grid[local].to(device), column.to(device), slots[local, column].to(device), whole=False
        )


@dataclass(frozen=True)
class Spread:
    """Where the tokens of a step lie for one set of running configurations, [rows, tokens] each.

    ``inside``: rows that run the block, or tokens where rows go as one sequence (None: all); ``grid``: their row on
    the block's grid; ``columns``: their place among the row's new tokens; ``slots``: where their keys and values go;
    ``whole``: they are the grid as it stands.
    """

    inside: Tensor | None
    grid: Tensor
    columns: Tensor
    slots: Tensor
    whole: bool


def _place(rows: Tensor, running: Sequence[int], batch: Batch) -> Place:
    local = torch.full((batch.configurations,), -1)
    local[list(running)] = torch.arange(len(running))
    config, prompt = rows // batch.prompts, rows % batch.prompts
    own = local[config]
    runs = own >= 0
    grid = own[runs] * batch.prompts + prompt[runs]
    inside = None if bool(runs.all()) else runs.nonzero()[:, 0]
    return inside, grid, len(grid) == len(running) * batch.prompts
