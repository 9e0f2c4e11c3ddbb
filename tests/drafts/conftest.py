"""Requests in the middle of their answers, for drafts that run the target itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
import torch
from transformers import PreTrainedModel

from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from tests.drafts.thinned.history import History, Request, contexts_of, make_history

SKIPS = [SkipSet(), SkipSet((0, 2)), SkipSet((3,))]
PROMPT_LENGTHS = (9, 13)
"""Both longer than the window of 7."""
ANSWER_LENGTHS = (5, 8, 4, 6, 7, 5)
"""Tokens of each row's answer, the root included."""


@pytest.fixture(scope="session")
def requests(tiny_model, copy_model, without_blocks) -> Callable[..., tuple[TargetModel, list[Request]]]:
    """Rows of three skip sets and two prompts, whose answers are of unequal length.

    ``policy``: of the prefill; ``taken``: rows that are left in a batch of their own; ``answers``: tokens of each row's
    answer, the root included; ``own_text``: whether they are the target's own.
    """

    def make(
        family: str = "llama",
        *,
        policy: str = "sparse",
        taken: tuple[int, ...] | None = None,
        remaining: int = 50,
        temperature: float = 0.0,
        slots: int = 60,
        answers: tuple[int, ...] = ANSWER_LENGTHS,
        model: PreTrainedModel | None = None,
        own_text: bool = False,
    ) -> tuple[TargetModel, list[Request]]:
        rng = random.Random(7)
        prompts = [[rng.randrange(97) for _ in range(length)] for length in PROMPT_LENGTHS]
        written = [[rng.randrange(97) for _ in range(length)] for length in answers]
        plain = model or tiny_model(family)
        target = TargetModel(copy_model(plain))
        batch = target.prefill(SKIPS, prompts, slots=slots, policy=policy)

        def history(row: int, back: int = 0) -> History:
            skip, prompt, answer = SKIPS[row // 2], prompts[row % 2], written[row]
            rest = answer[: len(answer) - back]
            return make_history(plain, copy_model, without_blocks, skip, prompt, rest, policy)

        if own_text:
            for row, first in enumerate(batch.logits.flatten(0, 1).argmax(-1).tolist()):
                written[row], length = [first], answers[row]
                written[row] += history(row).chain(length - 1)
        counts = torch.tensor([len(answer) - 1 for answer in written])
        running = counts.nonzero()[:, 0]
        width = int(counts.max())
        tokens = torch.tensor([[*written[row][:-1], *[0] * width][:width] for row in running.tolist()])
        target.step(batch, tokens, rows=running, counts=counts[running])
        batch.commit(running, counts[running])
        rows = list(range(batch.rows)) if taken is None else list(taken)
        if taken is not None:
            batch = batch.take(rows)
        skips = [SKIPS[row // 2] for row in rows]
        texts = [[*prompts[row % 2], *written[row]] for row in rows]
        contexts = contexts_of(target, batch, skips, texts, remaining, temperature)
        return target, [
            Request(context, history(row), partial(history, row))
            for row, context in zip(rows, contexts, strict=True)
        ]

    return make
