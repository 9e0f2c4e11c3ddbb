"""Detour: how a forward of new tokens departs from a verification step, for drafts that run a model themselves.

A draft that leaves out parts of the target, exits early, or feeds states of its own into a head is the same forward
with a few blocks entered, left out or answered differently; nothing of it stays in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from skipmap.skipset import SkipSet

Settle = Callable[[int, Tensor, Tensor], Tensor]
"""(block, states that entered it, states that left it) -> the states to go on with, of the same shape."""


@dataclass(frozen=True)
class SubLayers:
    """Attention and MLP sub-layers by the index of their block; a block in both is left out as a whole."""

    attention: SkipSet = field(default_factory=SkipSet)
    mlp: SkipSet = field(default_factory=SkipSet)

    @classmethod
    def of_blocks(cls, blocks: SkipSet) -> SubLayers:
        """Both sub-layers of each block."""
        return cls(blocks, blocks)

    def hold(self, block: int) -> bool:
        """Whether the block is left out as a whole."""
        return block in self.attention and block in self.mlp

    def validate(self, num_layers: int) -> SubLayers:
        """Return self; raises InvalidInput for an index that the model does not have."""
        self.attention.validate(num_layers)
        self.mlp.validate(num_layers)
        return self


@dataclass(frozen=True)
class Detour:
    """What a forward does differently.

    ``without``: sub-layers that are bypassed for all rows, besides the rows' own skip sets. ``inject``: block ->
    states [n, t, width] that enter it in place of what came from below (rows with unequal counts: [1, positions,
    width]). ``settle``: asked after each block that ran.
    """

    without: SubLayers = SubLayers()
    inject: Mapping[int, Tensor] = field(default_factory=dict)
    settle: Settle | None = None

    def entering(self, index: int, hidden: Tensor) -> Tensor:
        """The states that enter a block."""
        return self.inject.get(index, hidden)

    def leaving(self, index: int, before: Tensor, after: Tensor) -> Tensor:
        """The states to go on with after a block that ran."""
        return after if self.settle is None else self.settle(index, before, after)

    @contextmanager
    def around(self, index: int, block: Any) -> Iterator[None]:
        """Run a block with its left-out sub-layer adding nothing and computing nothing."""
        silent: list[nn.Module] = []
        try:
            if index in self.without.attention:
                silent.append(_silence(block.self_attn, _no_attention))
            if index in self.without.mlp:
                silent.append(_silence(block.mlp, torch.zeros_like))
            yield
        finally:
            for module in silent:
                del module.forward


STRAIGHT = Detour()


def _no_attention(hidden_states: Tensor, **_: Any) -> tuple[Tensor, None]:
    return torch.zeros_like(hidden_states), None


def _silence(module: nn.Module, answer: Callable[..., Any]) -> nn.Module:
    # An attribute of the instance goes before the class's method, and away again without a trace.
    module.forward = answer
    return module
