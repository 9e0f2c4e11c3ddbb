"""FrozenOutput: the target's output layer in a computation that has gradients, itself never changed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from skipmap.target.model import TargetModel
from skipmap.target.packed import PackedLinear, can_pack


class FrozenOutput(nn.Module):
    """Logits [.., vocabulary] (float32) of hidden states [.., width], with gradients for the states alone.

    On a CPU both directions go through packed weights, like the target's own layers: with the plain product this layer
    alone takes most of the time that a head is trained for.
    """

    def __init__(self, target: TargetModel) -> None:
        super().__init__()
        layer: Any = target.model.get_output_embeddings()
        weight = layer.weight.detach().float()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self._cap = getattr(target.model.config, "final_logit_softcapping", None)
        self._pair = None
        if can_pack(self):
            self._pair = (PackedLinear(_linear(weight)), PackedLinear(_linear(weight.T.contiguous())))

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden [.., width] -> logits [.., vocabulary]."""
        out: Tensor = (
            functional.linear(hidden, self.weight)
            if self._pair is None
            else _Packed.apply(hidden, *self._pair)  # type: ignore[no-untyped-call]
        )
        return out if not self._cap else torch.tanh(out / self._cap) * self._cap


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, there: PackedLinear, back: PackedLinear) -> Tensor:
        ctx.back = back
        logits: Tensor = there(hidden.detach())
        return logits

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.back(gradient.contiguous()), None, None


def _linear(weight: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer
