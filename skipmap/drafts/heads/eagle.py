"""EagleHead: the network of EAGLE-1 and EAGLE-2 (Li et al. 2024).

It predicts the target's next feature (hidden state after the final norm) from the feature of a position and the
embedding of the token after it. The target's own output layer turns a predicted feature into tokens.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaDecoderLayer, LlamaRotaryEmbedding

from skipmap.drafts.heads.config import EagleConfig


class EagleHead(nn.Module):
    """A joining layer and one decoder block without a norm at its entrance; embeddings are the target's.

    The state dict has the published keys: ``fc.*`` and ``layers.0.*``.
    """

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=config.fc_bias)
        block: Any = LlamaDecoderLayer(config.shape, 0)
        block.input_layernorm = nn.Identity()
        if config.qkv_bias:
            give_biases(block.self_attn)
        self.layers = nn.ModuleList([block])
        self.rotary = LlamaRotaryEmbedding(config.shape)

    @property
    def block(self) -> nn.Module:
        """The decoder block."""
        return self.layers[0]

    def fuse(self, states: Tensor) -> Tensor:
        """Feature [.., width] of the target's state: the state itself."""
        return states

    def entering(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """What enters the block: embeddings [.., width] joined with the features [.., width] before them."""
        return cast(Tensor, self.fc(torch.cat([embeddings, features], dim=-1)))

    def forward(
        self,
        embeddings: Tensor,
        features: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Predicted features [n, t, width] of whole sequences.

        ``features`` [n, t, width] of positions 1..t and ``embeddings`` [n, t, width] of the tokens at 2..t+1: place i
        predicts the feature of token i + 1's own position. ``positions`` [n, t] and the additive ``mask`` [n, 1, t, t]
        are those of a chain by default.
        """
        return through_block(self.block, self.rotary, self.entering(embeddings, features), positions, mask)


def through_block(
    block: nn.Module, rotary: nn.Module, states: Tensor, positions: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Run whole sequences through the block of a head; causal without a mask."""
    if positions is None:
        positions = torch.arange(states.shape[1], device=states.device)[None]
    return cast(Tensor, block(states, attention_mask=mask, position_embeddings=rotary(states, positions)))


def give_biases(attention: LlamaAttention) -> None:
    """Queries, keys and values with a bias, as Qwen2 has them; a Llama has them on all four projections or none."""
    for name in ("q_proj", "k_proj", "v_proj"):
        old: nn.Linear = getattr(attention, name)
        setattr(attention, name, nn.Linear(old.in_features, old.out_features, bias=True))


def new_attention(shape: LlamaConfig, entering: int, biased: bool) -> LlamaAttention:
    """Attention over states that are ``entering`` wide."""
    attention = LlamaAttention(shape, 0)
    for name in ("q_proj", "k_proj", "v_proj"):
        out = getattr(attention, name).out_features
        setattr(attention, name, nn.Linear(entering, out, bias=biased))
    return attention
