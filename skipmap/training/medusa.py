"""MedusaObjective: how Medusa heads are taught (Cai et al. 2024, Medusa-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from skipmap.drafts.heads.medusa import MedusaHeads, ResidualBlock
from skipmap.target.model import TargetModel
from skipmap.training.lessons import Lesson, Loss
from skipmap.training.output import FrozenOutput

LATER_HEAD = 0.8
"""Weight of each head relative to the one before (Cai et al. 2024, section 2.2.1)."""


class MedusaObjective:
    """Predict the tokens after the next one from the same state.

    The output layers start as copies of the target's. Of a copy, the rows of tokens that occur in the texts are taught;
    the others stay the target's, and the blocks before them learn not to raise them.
    """

    def __init__(self, target: TargetModel, output: FrozenOutput, heads: int, blocks: int) -> None:
        self._width, self._vocabulary_size, self._blocks = (
            output.weight.shape[1],
            target.vocabulary_size,
            blocks,
        )
        self._output = output
        rows = output.weight[output.occurring]
        self.taught = nn.ModuleList(_Taught(self._width, blocks, rows) for _ in range(heads)).to(
            target.device
        )

    def head(self) -> MedusaHeads:
        """Heads over the whole vocabulary."""
        whole = MedusaHeads(self._width, self._vocabulary_size, len(self.taught), self._blocks)
        whole = whole.to(self._output.weight.device)
        with torch.no_grad():
            for head, mine in zip(whole, self.taught, strict=True):
                *blocks, last = cast(nn.Sequential, head)
                for block, learnt in zip(blocks, cast(_Taught, mine).blocks, strict=True):
                    block.load_state_dict(learnt.state_dict())
                weight = cast(nn.Linear, last).weight
                weight.copy_(self._output.weight)
                weight[self._output.occurring] = cast(_Taught, mine).rows
        return whole

    def loss(self, lessons: Sequence[Lesson], generator: torch.Generator) -> Loss:
        """Cross entropy of each head's token, later heads weighing less."""
        total = self._output.weight.new_zeros(())
        first_right, first_count = 0.0, 0
        others = self._output.weight[self._output.others(generator)]
        for i, head in enumerate(self.taught):
            ahead = i + 2
            states, wanted = [], []
            for lesson in lessons:
                # A state at position t says token t + 1, and head i the token i + 2 places further on.
                first, last = lesson.start - 1, len(lesson.tokens) - ahead
                if last > first:
                    states.append(lesson.states[first:last])
                    wanted.append(lesson.tokens[first + ahead :])
            if not states:
                continue
            tokens = self._output.places(torch.cat(wanted))
            scores = cast(_Taught, head).scores(torch.cat(states), others)
            total = total + LATER_HEAD**i * functional.cross_entropy(scores, tokens)
            if i == 0:
                first_count = len(tokens)
                first_right = float((scores.argmax(-1) == tokens).float().mean())
        return Loss(total, first_count, first_right)


class _Taught(nn.Module):
    """One head: ``blocks``, and ``rows`` [n, width] of its output layer."""

    def __init__(self, width: int, blocks: int, rows: Tensor) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.rows = nn.Parameter(rows.clone())

    def scores(self, states: Tensor, others: Tensor) -> Tensor:
        """Logits [t, n + m] of states [t, width]; ``others`` [m, width]: rows that are not taught."""
        return functional.linear(self.blocks(states), torch.cat([self.rows, others]))
