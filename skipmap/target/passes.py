"""One forward through the blocks: what each block runs, and where its attention reads and writes.

A pass travels with the forward as a keyword argument, so a loaded model carries no state between calls. ``Bypass``
wraps every decoder block and asks the pass whether, and for which rows, the block runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from skipmap.target.attention import prefill_attention
from skipmap.target.batch import Batch
from skipmap.target.families import FULL

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
        leaving = self._run(index, block, hidden, kwargs)
        after = index + 1
        if after in self.capture and after == len(self.batch.lineage.blocks):
            # No block has it as its input.
            self.captured[after] = leaving
        return leaving

    def _run(self, index: int, block: Block, hidden: Tensor, kwargs: dict[str, Any]) -> Tensor:
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
