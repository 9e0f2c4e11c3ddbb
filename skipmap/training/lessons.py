"""Lessons: texts with the target's states, and the places of a text that a head is taught at.

Every token of a text can be learnt from, prompt and answer alike: the states are the target's own in both, and an
answer alone is short. Only what all prompts of a domain begin with (the template) is left out: it is the same in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

import torch
from torch import Tensor, nn

from skipmap.training.texts import Text


@dataclass(frozen=True)
class Lesson:
    """A text with the target's states: ``tokens`` [t], ``states`` [t, width]; ``start``: the first taught token."""

    tokens: Tensor
    states: Tensor
    start: int


@dataclass(frozen=True)
class Loss:
    """Mean loss, positions it is a mean over, and the share of them whose likeliest token is the right one."""

    value: Tensor
    positions: int
    right: float


class Objective(Protocol):
    """Something to teach, what it is taught, and the head that comes of it."""

    @property
    def taught(self) -> nn.Module:
        """What the optimiser changes, in the form in which it learns best."""
        ...

    def loss(self, lessons: Sequence[Lesson], generator: torch.Generator) -> Loss:
        """Loss on a batch; ``generator`` draws its noise (CPU)."""
        ...

    def head(self) -> nn.Module:
        """The head as it now is, in its published form."""
        ...


def starts(texts: Sequence[Text]) -> list[int]:
    """Of each text, its first token that is taught: after what all prompts of its domain begin with."""
    shared: dict[str, tuple[int, ...]] = {}
    for text in texts:
        before = shared.setdefault(text.domain, text.prompt)
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, text.prompt, strict=False))
        )
        shared[text.domain] = before[:same]
    return [max(1, len(shared[text.domain])) for text in texts]


def padded(values: Tensor, length: int) -> Tensor:
    """Values [t, ..] -> [length, ..], zeros behind."""
    pad = values.new_zeros((length - len(values), *values.shape[1:]))
    return torch.cat([values, pad])
