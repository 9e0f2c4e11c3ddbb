"""Detour: how a forward of new tokens departs from a verification step, for drafts that run a model themselves.

A draft that leaves out parts of the target, exits early, or feeds states of its own into a head is the same forward
with a few blocks entered, left out or answered differently; nothing of it stays in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_
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

    def __and__(self, other: SubLayers) -> SubLayers:
        """What both leave out."""
        return SubLayers(
            SkipSet.of(b for b in self.attention if b in other.attention),
            SkipSet.of(b for b in self.mlp if b in other.mlp),
        )

    def validate(self, num_layers: int) -> SubLayers:
        """Return self; raises InvalidInput for an index that the model does not have."""
        self.attention.validate(num_layers)
        self.mlp.validate(num_layers)
        return self


@dataclass(frozen=True)
class Detour:
    """What a forward does differently.

    ``without``: sub-layers that are bypassed for all rows, besides the rows' own skip sets. ``apart``: those that each
    row leaves out, where rows differ (empty: where they do not): what another row needs is computed for all and adds
    nothing to the row. ``inject``: block -> states [n, t, width] that enter it in place of what came from below (rows
    with unequal counts: [1, positions, width]). ``settle``: asked after each block that ran.
    """

    without: SubLayers = SubLayers()
    apart: tuple[SubLayers, ...] = ()
    inject: Mapping[int, Tensor] = field(default_factory=dict)
    settle: Settle | None = None

    @classmethod
    def leaving_out(cls, rows: Sequence[SubLayers]) -> Detour:
        """One forward of rows [n] that leave out different things; what all of them leave out does not run."""
        return cls(reduce(and_, rows), () if len(set(rows)) == 1 else tuple(rows))

    def entering(self, index: int, hidden: Tensor) -> Tensor:
        """The states that enter a block."""
        return self.inject.get(index, hidden)

    def leaving(self, index: int, before: Tensor, after: Tensor) -> Tensor:
        """The states to go on with after a block that ran."""
        return after if self.settle is None else self.settle(index, before, after)

    @contextmanager
    def around(self, index: int, block: Any, owners: Tensor | None = None) -> Iterator[None]:
        """Run a block with its left-out sub-layers adding nothing; one that all rows leave out computes nothing.

        ``owners``: row of each position that enters the block, [rows, 1] or [1, positions]; needed where rows differ.
        """
        changed: list[nn.Module] = []
        try:
            if index in self.without.attention:
                changed.append(_answer(block.self_attn, _no_attention))
            elif (keep := self._keep(owners, [index not in row.attention for row in self.apart])) is not None:
                changed.append(
                    _answer(block.self_attn, partial(_some_attention, block.self_attn.forward, keep))
                )
            if index in self.without.mlp:
                changed.append(_answer(block.mlp, torch.zeros_like))
            elif (keep := self._keep(owners, [index not in row.mlp for row in self.apart])) is not None:
                changed.append(_answer(block.mlp, partial(_some_mlp, block.mlp.forward, keep)))
            yield
        finally:
            for module in changed:
                del module.forward

    @staticmethod
    def _keep(owners: Tensor | None, runs: Sequence[bool]) -> Tensor | None:
        """Positions whose row runs a sub-layer, shaped as states; None where all do."""
        if all(runs):
            return None
        assert owners is not None
        return torch.tensor(runs)[owners][..., None]


STRAIGHT = Detour()


def _no_attention(hidden_states: Tensor, **_: Any) -> tuple[Tensor, None]:
    return torch.zeros_like(hidden_states), None


def _some_attention(
    run: Callable[..., tuple[Tensor, Any]], keep: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    return _kept(run(*args, **kwargs)[0], keep), None


def _some_mlp(run: Callable[..., Tensor], keep: Tensor, hidden: Tensor) -> Tensor:
    return _kept(run(hidden), keep)


def _kept(added: Tensor, keep: Tensor) -> Tensor:
    return torch.where(keep.to(added.device), added, 0)


def _answer(module: nn.Module, answer: Callable[..., Any]) -> nn.Module:
    # An attribute of the instance goes before the class's method, and away again without a trace.
    module.forward = answer
    return module
