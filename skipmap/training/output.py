"""FrozenOutput: the target's output layer over some of its tokens, with gradients for the states alone.

The layer is most of what a small head costs to train, and nearly all of its tokens occur in no text. So scores are
taken over the tokens that occur and, step by step, over others drawn at random, which keeps a head from raising those
(a sampled softmax, Jean et al. 2015).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from skipmap.target.model import TargetModel
from skipmap.training.texts import Text

OTHERS = 2048
"""Tokens that occur in no text, for each step."""


class FrozenOutput:
    """Scores of tokens. ``weight`` [vocabulary, width] (float32); ``occurring`` [n]: ids in the texts, ascending."""

    def __init__(self, target: TargetModel, texts: Sequence[Text]) -> None:
        self.weight: Tensor = target.model.get_output_embeddings().weight.detach().float()
        ids = sorted({token for text in texts for token in text.tokens})
        self.occurring = torch.tensor(ids, device=self.weight.device)
        self._cap = getattr(target.model.config, "final_logit_softcapping", None)

    def others(self, generator: torch.Generator) -> Tensor:
        """Ids of tokens that occur in no text; all of them in a small vocabulary."""
        rest = torch.ones(len(self.weight), dtype=torch.bool)
        rest[self.occurring.cpu()] = False
        ids = rest.nonzero()[:, 0]
        if len(ids) > OTHERS:
            ids = torch.unique(ids[torch.randint(len(ids), (OTHERS,), generator=generator)])
        return ids.to(self.weight.device)

    def places(self, tokens: Tensor) -> Tensor:
        """Where tokens stand in ``occurring``."""
        return torch.searchsorted(self.occurring, tokens)

    def scores(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Logits [.., n] (float32) of hidden states [.., width] over rows [n, width] of the layer."""
        out = functional.linear(hidden, weight)
        return out if not self._cap else torch.tanh(out / self._cap) * self._cap
