"""EagleObjective: how an EAGLE head is taught (Li et al. 2024, EAGLE)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from skipmap.drafts.heads.config import EagleConfig
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.target.model import TargetModel
from skipmap.training.lessons import Lesson, Loss, padded
from skipmap.training.output import FrozenOutput

NOISE = 0.1
"""Half width of the uniform noise on features, in their typical size: so that the head bears its own mistakes.

Li et al. 2024, section 4.1.
"""

FEATURE_WEIGHT = 1.0
TOKEN_WEIGHT = 1.0
"""Weights of the two parts of the loss. The paper has 0.1 for tokens; a head with few texts gains by more."""

OWN_SHARE = 0.4
OWN_WEIGHT = 0.8
"""In a second pass this share of the features is the head's own, as behind a tree's first level; and what it weighs.

After the training of HASS (Zhang et al. 2024) and EAGLE-3 (Li et al. 2025, section 3.1), which go on for more passes.
"""

START_NOISE = 0.1
"""A new head passes features on nearly as they are; its other weights there start this much smaller than usual."""


class EagleObjective:
    """Predict the next feature, and with it the target's next-token distribution.

    ``sizes`` [width]: typical size of each number of a feature. Embeddings may be many times smaller than features,
    and a feature's numbers differ among each other as much; all would enter ``fc`` as they are, and the small ones be
    learnt last. So the head is taught on numbers of size 1; the published weights take the sizes back in.
    """

    def __init__(self, config: EagleConfig, target: TargetModel, output: FrozenOutput, sizes: Tensor) -> None:
        self._embed = cast(nn.Embedding, target.model.get_input_embeddings())
        self._output = output
        embedding_size = _size(self._embed.weight.detach().float())
        self._sizes = torch.cat([embedding_size.expand_as(sizes), sizes]).to(target.device)
        self.taught = EagleHead(config).to(target.device)
        with torch.no_grad():
            joined = self.taught.fc.weight
            joined[:, config.hidden_size :] *= START_NOISE
            joined[:, config.hidden_size :] += torch.eye(config.hidden_size, device=target.device)

    def head(self) -> EagleHead:
        """The head for embeddings and features as they are."""
        head = deepcopy(self.taught)
        with torch.no_grad():
            head.fc.weight /= self._sizes
        return head

    def loss(self, lessons: Sequence[Lesson], generator: torch.Generator) -> Loss:
        """Smooth L1 of features and cross entropy of distributions, with the target's features and with its own."""
        longest = max(len(lesson.tokens) for lesson in lessons)
        tokens = torch.stack([padded(lesson.tokens, longest) for lesson in lessons])
        states = torch.stack([padded(lesson.states, longest) for lesson in lessons])
        # Place i predicts the state of position i + 1; the first that drafts is that of the token before the start.
        places = torch.zeros(len(lessons), longest - 1, dtype=torch.bool, device=states.device)
        for row, lesson in enumerate(lessons):
            places[row, lesson.start - 1 : len(lesson.tokens) - 1] = True
        size = _size(self._sizes[states.shape[-1] :])
        noise = (torch.rand(states.shape, generator=generator) * 2 - 1) * NOISE
        entering = (states + noise.to(states.device) * size)[:, :-1]
        with torch.no_grad():
            embeddings = self._embed(tokens[:, 1:]).float()
        truth = states[:, 1:][places]
        weight = self._output.weight[torch.cat([self._output.occurring, self._output.others(generator)])]
        wanted = self._output.scores(truth, weight).softmax(-1)

        def taught(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            predicted = self._through(embeddings, features)
            guess = predicted[places]
            scores = self._output.scores(guess, weight)
            tokens_loss = -(wanted * scores.log_softmax(-1)).sum(-1).mean()
            feature_loss = functional.smooth_l1_loss(guess / size, truth / size)
            return (
                FEATURE_WEIGHT * feature_loss + TOKEN_WEIGHT * tokens_loss,
                predicted.detach(),
                scores.detach(),
            )

        first, predicted, scores = taught(entering)
        own = torch.rand(predicted.shape[:2], generator=generator).to(states.device) < OWN_SHARE
        # What is predicted at a place is the feature that enters at the next.
        own = torch.cat([torch.zeros_like(own[:, :1]), own[:, :-1]], dim=1)
        mixed = torch.where(own[..., None], torch.roll(predicted, 1, dims=1), entering)
        second, _, _ = taught(mixed)
        right = float((scores.argmax(-1) == wanted.argmax(-1)).float().mean())
        return Loss((first + OWN_WEIGHT * second) / (1 + OWN_WEIGHT), len(truth), right)

    def _through(self, embeddings: Tensor, features: Tensor) -> Tensor:
        width = features.shape[-1]
        predicted: Tensor = self.taught(embeddings / self._sizes[:width], features / self._sizes[width:])
        return predicted


def _size(values: Tensor) -> Tensor:
    return values.square().mean().sqrt().clamp_min(1e-6)
