"""Plain greedy decoding of many configurations and prompts in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from skipmap.decoding.options import Finish
from skipmap.decoding.stopping import StopRule
from skipmap.skipset import SkipSet
from skipmap.target.model import PrefillPolicy, TargetModel, check_context

SPARSE_BATCH = 1 / 3
"""Share of rows below which a batch is worth copying: until then the histories that rows share weigh more."""


@dataclass(frozen=True)
class Text:
    """Tokens of one finished answer, EOS included when emitted, and why it ended."""

    token_ids: tuple[int, ...]
    finish: Finish


def decode_grid(
    target: TargetModel,
    skips: Sequence[SkipSet],
    prompts: Sequence[Sequence[int]] | Sequence[Sequence[Sequence[int]]],
    stop_rule: StopRule,
    max_new_tokens: int,
    policy: PrefillPolicy = "sparse",
) -> list[list[Text]]:
    """Answers of every (skip set, prompt), [configurations][prompts].

    ``skips`` ascending; ``prompts`` as ``TargetModel.prefill`` takes them. All rows take one token a step; a row
    that has ended leaves the forwards.
    """
    for row in prompts:
        for prompt in [row] if isinstance(row[0], int) else row:
            check_context(len(cast("Sequence[int]", prompt)), max_new_tokens, target.context_length)
    batch = target.prefill(skips, prompts, slots=max_new_tokens, policy=policy)
    columns = batch.prompts
    chosen = batch.logits.argmax(-1).flatten().tolist()
    batch.logits = batch.logits[:0]
    tokens: list[list[int]] = [[] for _ in chosen]
    finishes: list[Finish | None] = [None] * len(chosen)
    alive = list(range(len(chosen)))
    # ``alive`` numbers the answers that go on, ``places`` are their rows in the batch.
    places = alive
    rows = torch.tensor(places)
    while True:
        for answer, token in zip(alive, chosen, strict=True):
            tokens[answer].append(token)
            finishes[answer] = stop_rule.after(tokens[answer])
        going = [i for i, answer in enumerate(alive) if finishes[answer] is None]
        if not going:
            break
        if len(going) < len(alive):
            alive, places = [alive[i] for i in going], [places[i] for i in going]
            if len(places) <= batch.rows * SPARSE_BATCH:
                batch = batch.take(places)
                places = list(range(len(places)))
            rows = torch.tensor(places)
        last = torch.tensor([[tokens[answer][-1]] for answer in alive])
        output = target.step(batch, last, rows=rows)
        batch.commit(rows, 1)
        chosen = target.logits(output.hidden[:, -1]).argmax(-1).tolist()
    done = [Text(tuple(t), f) for t, f in zip(tokens, finishes, strict=True) if f is not None]
    return [done[c * columns : (c + 1) * columns] for c in range(len(skips))]
