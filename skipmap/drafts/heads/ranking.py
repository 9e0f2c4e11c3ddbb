"""The best tokens of Medusa heads for many requests."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from skipmap.drafts.heads.engine import SCORED_AT_ONCE
from skipmap.drafts.heads.medusa import MedusaHeads


@torch.inference_mode()
def best_of_heads(heads: MedusaHeads, hidden: Sequence[Tensor], count: int) -> list[list[list[int]]]:
    """Tokens [requests][heads][count] from one hidden state [width] of each request, the likeliest first."""
    states = torch.stack(list(hidden))
    at_once = max(1, SCORED_AT_ONCE.get(states.device.type, 256) // len(heads))
    tables: list[list[list[int]]] = []
    for part in torch.split(states, at_once):
        best = heads(part).topk(min(count, heads.vocabulary_size)).indices
        tables += best.transpose(0, 1).tolist()
    return tables
