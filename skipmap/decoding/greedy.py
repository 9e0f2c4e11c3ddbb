"""Plain greedy decoding of many configurations and prompts in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from skipmap.decoding.options import Finish
from skipmap.decoding.stopping import StopRule
from skipmap.skipset import SkipSet
from skipmap.target.model import PrefillPolicy, TargetModel


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
    batch = target.prefill(skips, prompts, slots=max_new_tokens, policy=policy)
    chosen = batch.logits.argmax(-1).flatten().cpu()
    tokens: list[list[int]] = [[] for _ in range(batch.rows)]
    finishes: list[Finish | None] = [None] * batch.rows
    rows = torch.arange(batch.rows)
    while True:
        for row, token in zip(rows.tolist(), chosen.tolist(), strict=True):
            tokens[row].append(token)
            finishes[row] = stop_rule.after(tokens[row])
        alive = [row for row in rows.tolist() if finishes[row] is None]
        if not alive:
            break
        rows = torch.tensor(alive)
        last = torch.tensor([[tokens[row][-1]] for row in alive])
        output = target.step(batch, last, rows=rows)
        batch.commit(rows, 1)
        chosen = target.logits(output.hidden[:, -1]).argmax(-1).cpu()
    done = [Text(tuple(t), f) for t, f in zip(tokens, finishes, strict=True) if f is not None]
    return [done[c * batch.prompts : (c + 1) * batch.prompts] for c in range(batch.configurations)]
