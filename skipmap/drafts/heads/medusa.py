"""MedusaHeads: the network of Medusa (Cai et al. 2024), one small head for each of the tokens after the next one."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    """x + SiLU(linear(x)); a new one is the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden [.., width] -> [.., width]."""
        return hidden + functional.silu(self.linear(hidden))


class MedusaHeads(nn.ModuleList):
    """Heads on the hidden state after the target's final norm; head i predicts the token i + 2 places further on.

    The state dict has the published keys: ``{head}.{block}.linear.weight|bias`` and ``{head}.{blocks}.weight``.
    """

    def __init__(self, width: int, vocabulary_size: int, heads: int = 4, blocks: int = 1) -> None:
        super().__init__(
            nn.Sequential(
                *(ResidualBlock(width) for _ in range(blocks)), nn.Linear(width, vocabulary_size, bias=False)
            )
            for _ in range(heads)
        )
        self.width, self.vocabulary_size, self.blocks = width, vocabulary_size, blocks

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [heads, .., vocabulary] from hidden states [.., width]."""
        return torch.stack([cast(Tensor, head(hidden)) for head in self])
