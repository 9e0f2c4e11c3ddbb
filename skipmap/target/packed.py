"""Linear layers through oneDNN on the CPU.

PyTorch multiplies fp32 matrices with MKL, which on many processors leaves half of the vector width unused; oneDNN
generates code for the processor at hand and keeps the weights in the layout that this code wants. Measured on an
AVX-512 processor it is two to three times faster from 10 positions on, and no slower for one.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

# Row count that the layout is chosen for; other counts work with the same layout.
_TYPICAL_ROWS = 64


class PackedLinear(nn.Module):
    """An inference-only linear layer; holds the packed weight instead of the plain one."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = None if linear.bias is None else linear.bias.detach()
        self._ops: Any = torch.ops.mkldnn
        with torch.inference_mode():
            self._packed: Tensor = self._ops._reorder_linear_weight(linear.weight.detach(), _TYPICAL_ROWS)

    @property
    def weight(self) -> Tensor:
        """The plain weight [out, in], unpacked anew."""
        return self._packed.to_dense()

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden [.., in] -> [.., out]."""
        return cast(Tensor, self._ops._linear_pointwise(hidden, self._packed, self.bias, "none", [], ""))


def can_pack(model: nn.Module) -> bool:
    """Whether the model is in fp32 on a CPU and this PyTorch has the kernels."""
    first = next(model.parameters())
    return (
        first.device.type == "cpu"
        and first.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )


def pack_linears(model: nn.Module) -> int:
    """Replace every linear layer by its packed form where ``can_pack``; returns how many were.

    A weight that is tied to the embedding stays there as well, for look-ups.
    """
    if not can_pack(model):
        return 0
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child))
                count += 1
    return count
