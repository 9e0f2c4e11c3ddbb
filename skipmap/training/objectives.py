"""What a head is taught on one batch of texts: the loss of EAGLE's and of Medusa's training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.target.model import TargetModel
from skipmap.training.output import FrozenOutput

NOISE = 0.1
"""Half width of the uniform noise on features, in their typical size: so that the head bears its own mistakes.

Li et al. 2024, section 4.1.
"""

FEATURE_WEIGHT = 1.0
TOKEN_WEIGHT = 1.0
"""Weights of the two parts of EAGLE's loss. The paper has 0.1 for tokens; a head with few texts gains by more."""

LATER_HEAD = 0.8
"""Weight of each Medusa head relative to the one before (Cai et al. 2024, section 2.2.1)."""


@dataclass(frozen=True)
class Lesson:
    """A text with the target's states: ``tokens`` [t], ``states`` [t, width], ``prompt``: tokens of the prompt."""

    tokens: Tensor
    states: Tensor
    prompt: int


@dataclass(frozen=True)
class Loss:
    """Mean loss, positions it is a mean over, and the share of them whose likeliest token is the right one."""

    value: Tensor
    positions: int
    right: float


class Objective(Protocol):
    """A head with what it is taught."""

    @property
    def head(self) -> nn.Module:
        """What is taught."""
        ...

    def loss(self, lessons: Sequence[Lesson], generator: torch.Generator) -> Loss:
        """Loss on a batch; ``generator`` draws its noise (CPU)."""
        ...


class EagleObjective:
    """Predict the next feature, and with it the target's next-token distribution (Li et al. 2024, EAGLE)."""

    def __init__(self, head: EagleHead, target: TargetModel) -> None:
        self.head = head
        self._embed = target.model.get_input_embeddings()
        self._output = FrozenOutput(target)

    def loss(self, lessons: Sequence[Lesson], generator: torch.Generator) -> Loss:
        """Smooth L1 of features and cross entropy of distributions, over the answers."""
        longest = max(len(lesson.tokens) for lesson in lessons)
        tokens = torch.stack([_padded(lesson.tokens, longest) for lesson in lessons])
        states = torch.stack([_padded(lesson.states, longest) for lesson in lessons])
        noise = (torch.rand(states.shape, generator=generator) * 2 - 1) * NOISE
        entering = states + noise.to(states.device) * _scale(states)
        with torch.no_grad():
            embeddings = self._embed(tokens[:, 1:]).float()
        predicted = self.head(embeddings, entering[:, :-1])
        # Place i predicts the state of position i + 1; the first that drafts is that of the first answer token.
        places = torch.zeros(len(lessons), longest - 1, dtype=torch.bool, device=states.device)
        for row, lesson in enumerate(lessons):
            places[row, lesson.prompt - 1 : len(lesson.tokens) - 1] = True
        guess, truth = predicted[places], states[:, 1:][places]
        scores = self._output(guess)
        with torch.no_grad():
            wanted = self._output(truth)
            right = float((scores.argmax(-1) == wanted.argmax(-1)).float().mean())
            wanted = wanted.softmax(-1)
        tokens_loss = -(wanted * scores.log_softmax(-1)).sum(-1).mean()
        feature_loss = functional.smooth_l1_loss(guess / _scale(states), truth / _scale(states))
        return Loss(FEATURE_WEIGHT * feature_loss + TOKEN_WEIGHT * tokens_loss, len(guess), right)


class MedusaObjective:
    """Predict the tokens after the next one from the same state (Cai et al. 2024, Medusa-1)."""

    def __init__(self, head: MedusaHeads, target: TargetModel) -> None:
        self.head = head

    def loss(self, lessons: Sequence[Lesson], generator: torch.Generator) -> Loss:
        """Cross entropy of each head's token, later heads weighing less, over the answers."""
        total = torch.zeros(())
        first_right, first_count = 0.0, 0
        for i, head in enumerate(self.head):
            ahead = i + 2
            states, wanted = [], []
            for lesson in lessons:
                # A state at position t says token t + 1, and head i the token i + 2 places further on.
                start, stop = lesson.prompt - 1, len(lesson.tokens) - ahead
                if stop > start:
                    states.append(lesson.states[start:stop])
                    wanted.append(lesson.tokens[start + ahead :])
            if not states:
                continue
            scores, tokens = head(torch.cat(states)), torch.cat(wanted)
            total = total.to(scores.device) + LATER_HEAD**i * functional.cross_entropy(scores, tokens)
            if i == 0:
                first_count = len(tokens)
                first_right = float((scores.argmax(-1) == tokens).float().mean())
        return Loss(total, first_count, first_right)


def start_medusa(target: TargetModel, heads: int, blocks: int) -> MedusaHeads:
    """Heads that say what the target itself says: their output layers start as copies of the target's."""
    module = MedusaHeads(int(target.model.config.hidden_size), target.vocabulary_size, heads, blocks)
    weight = FrozenOutput(target).weight
    with torch.no_grad():
        for head in module:
            cast(nn.Linear, cast(nn.Sequential, head)[-1]).weight.copy_(weight)
    return module.to(target.device)


def _scale(states: Tensor) -> Tensor:
    """Typical size of a state's numbers: models differ by orders of magnitude, and losses should not."""
    return states.square().mean().sqrt().clamp_min(1e-6)


def _padded(values: Tensor, length: int) -> Tensor:
    pad = values.new_zeros((length - len(values), *values.shape[1:]))
    return torch.cat([values, pad])
