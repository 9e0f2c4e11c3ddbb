"""HeadEngine: a head run as a model of one block, so that slots, masks, ragged rows and batches are the engine's."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import LlamaModel

from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.eagle3 import Eagle3Head
from skipmap.target.batch import Batch
from skipmap.target.detour import Detour
from skipmap.target.model import Progress, TargetModel
from skipmap.target.spread import real_tokens

SCORED_AT_ONCE = {"cpu": 256, "cuda": 8192}
"""Logits are wide."""


class HeadEngine:
    """A head beside its target, whose embeddings and, for EAGLE-1/2, output layer it shares.

    ``vocabulary_size``: tokens that it can draft.
    """

    def __init__(self, head: EagleHead | Eagle3Head, target: TargetModel) -> None:
        self.head = head
        self.target = target
        self.vocabulary_size = (
            head.lm_head.out_features if isinstance(head, Eagle3Head) else target.vocabulary_size
        )
        self._model = TargetModel(_model_of(head, target), hook=self._report)

    def open(self, rows: int, slots: int) -> Batch:
        """Rows for requests of which the head has seen nothing."""
        return self._model.open(rows, slots)

    @torch.inference_mode()
    def run(
        self,
        batch: Batch,
        rows: Tensor,
        tokens: Tensor,
        features: Tensor,
        counts: Tensor,
        *,
        depths: Tensor | None = None,
        ancestors: Tensor | None = None,
        ahead: int = 0,
    ) -> Tensor:
        """Features [positions, width] that the head predicts at the real positions of the rows, row after row.

        ``tokens`` [n, t] with the ``features`` [positions, width] before them; the rest as ``TargetModel.step`` has it.
        """
        n, t = tokens.shape
        real = real_tokens(counts, t)
        flat = tokens.flatten() if real is None else tokens.flatten()[real]
        states = self.head.entering(self._embed(flat), features)
        shaped = states.view(n, t, -1) if real is None else states[None]
        output = self._model.step(
            batch,
            # What enters the block is given; its token numbers are not looked up.
            torch.zeros_like(tokens),
            rows=rows,
            counts=counts,
            depths=depths,
            ancestors=ancestors,
            ahead=ahead,
            detour=Detour(inject={0: shaped}),
        )
        return output.hidden.flatten(0, 1)

    @torch.inference_mode()
    def logits(self, features: Tensor) -> Tensor:
        """Scores [positions, drafted tokens] (float32) of the token after predicted features [positions, width]."""
        if isinstance(self.head, Eagle3Head):
            return self.head.logits(features).float()
        return self.target.logits(features).float()

    @torch.inference_mode()
    def best(self, features: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and target tokens [positions, count], the likeliest first; -inf where a head overflows."""
        found = []
        for part in torch.split(features, SCORED_AT_ONCE.get(self.target.device.type, 256)):
            scores = self.logits(part).log_softmax(-1)
            found.append(scores.topk(min(count, scores.shape[-1])))
        values = torch.cat([top.values for top in found]).nan_to_num(-torch.inf, neginf=-torch.inf)
        return values, self.target_tokens(torch.cat([top.indices for top in found]))

    def target_tokens(self, tokens: Tensor) -> Tensor:
        """The target's numbers of tokens that the head drafts."""
        return self.head.target_tokens(tokens) if isinstance(self.head, Eagle3Head) else tokens

    def _embed(self, tokens: Tensor) -> Tensor:
        embedding = self.target.model.get_input_embeddings()
        return cast(Tensor, embedding(tokens.to(self.target.device)))

    def _report(self, progress: Progress) -> None:
        # The target's hook may change after the draft was made.
        if self.target.hook is not None:
            self.target.hook(progress)


def _model_of(head: EagleHead | Eagle3Head, target: TargetModel) -> LlamaModel:
    """A model of the head's one block, without norms around it; what enters the block comes from outside."""
    with torch.device("meta"):
        model: Any = LlamaModel(head.config.shape)
    g = target.geometry
    model.embed_tokens = nn.Embedding(1, head.config.hidden_size, device=g.device, dtype=g.dtype)
    model.layers[0] = head.block
    model.norm = nn.Identity()
    model.rotary_emb = head.rotary
    return cast(LlamaModel, model.eval().requires_grad_(False))
