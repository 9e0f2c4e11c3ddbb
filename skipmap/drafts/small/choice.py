"""How a small model's tokens are chosen: its likeliest ones, or drawn from its distribution at a temperature."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def distributions(logits: Tensor, temperatures: Sequence[float]) -> Tensor:
    """Next-token distributions [n, vocabulary] (float32); temperature 0 counts as 1.

    Where a model has overflowed, all tokens are equally likely: a drawn token needs what it was drawn from.
    """
    scale = torch.tensor([temperature or 1.0 for temperature in temperatures], device=logits.device)
    q = (logits / scale[:, None]).softmax(-1)
    # A single number that is none makes the whole row so.
    return q.masked_fill_(q[:, :1].isnan(), 1 / q.shape[-1])


def choose(
    logits: Tensor, temperatures: Sequence[float], uniforms: Sequence[float]
) -> tuple[list[int], Tensor | None]:
    """One token after each of ``logits`` [n, vocabulary], and the distributions that they were drawn from.

    At temperature 0 the likeliest token; else the one at which ``uniforms`` [n], numbers in [0, 1), passes the summed
    distribution. None in place of the distributions when nothing was drawn.
    """
    best = logits.argmax(-1)
    if not any(temperatures):
        return best.tolist(), None
    q = distributions(logits, temperatures)
    cold = torch.tensor([not temperature for temperature in temperatures], device=q.device)
    return torch.where(cold, best, _draw(q, uniforms)).tolist(), q


def draw_some(q: Tensor, count: int, uniforms: Sequence[Sequence[float]]) -> list[list[int]]:
    """``count`` different tokens from each distribution of ``q`` [n, vocabulary], one after the other.

    ``uniforms`` [n][count]: numbers in [0, 1). Fewer where a distribution has fewer tokens.
    """
    left = q.clone()
    possible = (q > 0).sum(-1).tolist()
    found: list[list[int]] = [[] for _ in possible]
    for turn in range(count):
        drawn = _draw(left, [numbers[turn] for numbers in uniforms])
        left.scatter_(1, drawn[:, None], 0.0)
        for tokens, token, most in zip(found, drawn.tolist(), possible, strict=True):
            if turn < most:
                tokens.append(token)
    return found


def likeliest(logits: Tensor, count: int) -> list[list[int]]:
    """The ``count`` best tokens after each of ``logits`` [n, vocabulary], best first."""
    best: list[list[int]] = logits.topk(min(count, logits.shape[-1])).indices.tolist()
    return best


def _draw(q: Tensor, uniforms: Sequence[float]) -> Tensor:
    """A token [n] from each row of ``q`` [n, vocabulary], which need not sum to 1."""
    sums = q.cumsum(-1, dtype=torch.float64)
    passed = torch.tensor(uniforms, dtype=torch.float64, device=q.device)[:, None] * sums[:, -1:]
    found = torch.searchsorted(sums, passed, right=True).clamp_(max=q.shape[-1] - 1)
    # Sums of many numbers, made in parallel, may not grow strictly: what has no probability is never drawn.
    possible = q.gather(1, found) > 0
    return torch.where(possible, found, q.argmax(-1, keepdim=True))[:, 0]
