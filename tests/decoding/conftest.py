"""Rules and prompts for decoding with tiny models, whose tokens are their own numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
from transformers import PreTrainedModel

from skipmap.decoding.stopping import StopRule


@pytest.fixture(scope="session")
def make_rule() -> Callable[..., StopRule]:
    """Stop rule over texts such as ``"12 7 30"``."""

    def rule(limit: int = 24, end: Sequence[int] = (), stop: Sequence[str] = ()) -> StopRule:
        return StopRule(lambda tokens: " ".join(map(str, tokens)), frozenset(end), stop, limit)

    return rule


@pytest.fixture(scope="session")
def repeating_prompts() -> list[list[int]]:
    """Prompts in which drafts find something to copy."""
    rng = random.Random(0)
    return [[rng.randrange(97) for _ in range(length)] * 2 for length in (3, 9, 14)]


@pytest.fixture(scope="session")
def hugging_face_greedy() -> Callable[[PreTrainedModel, Sequence[int], int], list[int]]:
    """New tokens of plain greedy generation."""

    def generate(model: PreTrainedModel, prompt: Sequence[int], count: int) -> list[int]:
        ids = torch.tensor([prompt])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=count,
            pad_token_id=0,
        )
        return out[0, len(prompt) :].tolist()

    return generate
