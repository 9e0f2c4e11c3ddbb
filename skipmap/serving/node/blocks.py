"""Count what really runs: forward hooks on the decoder blocks themselves."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from skipmap.target.model import TargetModel
from skipmap.target.passes import Bypass


class BlockCounter:
    """Forwards of each decoder block since this counter was made; a bypassed block has none."""

    def __init__(self, target: TargetModel) -> None:
        layers = target.model.base_model.layers
        assert isinstance(layers, nn.ModuleList)
        self.forwards = [0] * len(layers)
        self._hooks = []
        for index, layer in enumerate(layers):
            block = layer.block if isinstance(layer, Bypass) else layer
            assert isinstance(block, nn.Module)
            self._hooks.append(block.register_forward_hook(partial(self._count, index)))

    def total(self) -> int:
        """Forwards of all blocks together."""
        return sum(self.forwards)

    def close(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()

    def _count(self, index: int, module: nn.Module, inputs: Any, output: Any) -> None:
        self.forwards[index] += 1
