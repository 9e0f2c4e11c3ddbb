"""From a step's hidden states to what each row accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from skipmap.decoding.sampling import GREEDY, Sampler
from skipmap.drafts.base import Acceptance
from skipmap.target.model import TargetModel
from skipmap.tree import TokenTree, accept_greedy

POSITIONS_AT_ONCE = {"cpu": 256, "cuda": 8192}
"""Logits are wide: those of a whole batch of trees would take gigabytes."""

RANKED = 32


@dataclass(frozen=True)
class Verdict:
    """Accepted nodes in order, the target's token after them, and, if asked for, best tokens [1 + nodes, top_k]."""

    path: list[int]
    bonus: int
    top_tokens: Tensor | None


def judge(
    target: TargetModel,
    hidden: Tensor,
    trees: Sequence[TokenTree],
    samplers: Sequence[Sampler | None],
    done: Sequence[int],
    top_k: int,
    acceptance: Acceptance | None = None,
) -> list[Verdict]:
    """Verdicts of rows whose positions lie one after the other in ``hidden`` [positions, width].

    ``samplers``: of each row, None where it takes the likeliest token; ``done``: new tokens of each row so far;
    ``top_k``: best tokens to hand on (0: none); ``acceptance``: a lossy draft's own rule, None for the exact one.
    """
    verdicts = []
    sizes = [1 + len(tree) for tree in trees]
    first = 0
    for rows in _chunks(sizes, POSITIONS_AT_ONCE.get(target.device.type, 256)):
        count = sum(sizes[rows.start : rows.stop])
        logits = target.logits(hidden[first : first + count])
        first += count
        top = _best(logits, top_k) if top_k else None
        choices = logits.argmax(-1).tolist() if None in samplers else []
        start = 0
        for row in rows:
            part = slice(start, start + sizes[row])
            start = part.stop
            sampler = samplers[row]
            if acceptance is not None:
                path, bonus = acceptance.accept(trees[row], logits[part], sampler or GREEDY, done[row])
            elif sampler is None:
                path, bonus = accept_greedy(trees[row], choices[part])
            else:
                path, bonus = sampler.accept(trees[row], logits[part], done[row])
            verdicts.append(Verdict(path, bonus, None if top is None else top[part]))
    return verdicts


def top_tokens(target: TargetModel, hidden: Tensor, top_k: int) -> Tensor:
    """Best next tokens [positions, top_k] after each of ``hidden`` [positions, width] (CPU)."""
    size = POSITIONS_AT_ONCE.get(target.device.type, 256)
    return torch.cat([_best(target.logits(part), top_k) for part in torch.split(hidden, size)])


def _best(logits: Tensor, top_k: int) -> Tensor:
    """The ``top_k`` likeliest tokens, or all of a smaller vocabulary.

    Always ranked among the same number: how ties are broken depends on it, and in half precision there are many.
    """
    ranked = logits.topk(min(max(top_k, RANKED), logits.shape[-1])).indices
    return ranked[..., :top_k].cpu()


def _chunks(sizes: Sequence[int], most: int) -> Iterator[range]:
    """Runs of neighbouring rows with at most ``most`` positions together, or a single row with more."""
    start, total = 0, 0
    for row, size in enumerate(sizes):
        if row > start and total + size > most:
            yield range(start, row)
            start, total = row, 0
        total += size
    if sizes:
        yield range(start, len(sizes))
