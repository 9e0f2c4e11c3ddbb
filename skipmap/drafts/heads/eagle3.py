"""Eagle3Head: the network of EAGLE-3 (Li et al. 2025).

It reads the inputs of three blocks of the target instead of the last feature, predicts tokens of a vocabulary of its
own, and goes on from its own output where the target's states are not known yet.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from skipmap.drafts.heads.config import Eagle3Config
from skipmap.drafts.heads.eagle import new_attention, through_block


class Midlayer(nn.Module):
    """A decoder block that attends over embedding and feature side by side and adds to the feature."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        shape, width = config.shape, config.hidden_size
        self.hidden_norm = LlamaRMSNorm(width, eps=shape.rms_norm_eps)
        self.input_layernorm = LlamaRMSNorm(width, eps=shape.rms_norm_eps)
        self.self_attn = new_attention(shape, 2 * width, config.qkv_bias)
        self.post_attention_layernorm = LlamaRMSNorm(width, eps=shape.rms_norm_eps)
        self.mlp = LlamaMLP(shape)
        self._norm_before_residual = config.norm_before_residual

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        """Embedding and feature side by side [n, t, 2 width] -> next feature [n, t, width]."""
        embedding, feature = hidden_states.chunk(2, dim=-1)
        normed = self.hidden_norm(feature)
        both = torch.cat([self.input_layernorm(embedding), normed], dim=-1)
        attended, _ = self.self_attn(hidden_states=both, **kwargs)
        hidden = (normed if self._norm_before_residual else feature) + attended
        return cast(Tensor, hidden + self.mlp(self.post_attention_layernorm(hidden)))


class Eagle3Head(nn.Module):
    """Joining layer of the target's states, one block, final norm and an output layer of its own.

    The state dict has the published keys: ``fc.weight``, ``midlayer.*``, ``norm.weight``, ``lm_head.weight`` and, where
    it can draft a part of the vocabulary only, ``d2t`` (draft token -> target token minus draft token) and ``t2d``
    (whether a target token can be drafted). ``taps``: how many states it reads.
    """

    d2t: Tensor | None
    t2d: Tensor | None

    def __init__(self, config: Eagle3Config, taps: int = 3) -> None:
        super().__init__()
        self.config = config
        width, drafted = config.hidden_size, config.draft_vocab_size
        self.fc = nn.Linear(taps * width, width, bias=config.fc_bias)
        self.midlayer = Midlayer(config)
        self.norm = LlamaRMSNorm(width, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(width, drafted, bias=False)
        self.rotary = LlamaRotaryEmbedding(config.shape)
        is_part = drafted != config.vocab_size
        tokens = torch.arange(config.vocab_size) < drafted
        self.register_buffer("d2t", torch.zeros(drafted, dtype=torch.long) if is_part else None)
        self.register_buffer("t2d", tokens if is_part else None)

    @property
    def block(self) -> nn.Module:
        """The decoder block."""
        return self.midlayer

    def fuse(self, states: Tensor) -> Tensor:
        """Feature [.., width] of the target's states [.., taps * width], side by side in the order of the blocks."""
        return cast(Tensor, self.fc(states))

    def entering(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """What enters the block: embeddings [.., width] beside the features [.., width] before them."""
        return torch.cat([embeddings, features], dim=-1)

    def logits(self, features: Tensor) -> Tensor:
        """Logits [.., drafted tokens] of the token after the one that a feature [.., width] was predicted at."""
        return cast(Tensor, self.lm_head(self.norm(features)))

    def target_tokens(self, tokens: Tensor) -> Tensor:
        """The target's numbers of drafted tokens."""
        return tokens if self.d2t is None else tokens + self.d2t[tokens]

    def forward(
        self,
        embeddings: Tensor,
        features: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Next features [n, t, width] of whole sequences; arguments as ``EagleHead.forward`` takes them.

        ``features`` are fused states of the target, or features that came out here.
        """
        return through_block(self.block, self.rotary, self.entering(embeddings, features), positions, mask)
