"""Requests as rows of the target's batch, and the chains that grow on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from skipmap.drafts.base import DraftContext, TargetRow
from skipmap.drafts.small.choice import choose
from skipmap.target.batch import Batch
from skipmap.target.model import TargetModel
from skipmap.tree import TokenTree


@dataclass(frozen=True)
class Standing:
    """Requests that stand in one batch, in the order of its rows; ``members`` number them among all that drafted."""

    target: TargetModel
    batch: Batch
    members: tuple[int, ...]
    contexts: Sequence[DraftContext]

    def rows(self, members: Sequence[int]) -> Tensor:
        """Rows of the batch of some of the members, [n]."""
        return torch.tensor([row_of(self.contexts[member]).place for member in members])


def standings(contexts: Sequence[DraftContext], members: Sequence[int]) -> Iterator[Standing]:
    """The requests ``members`` by batch."""
    batches: dict[int, list[int]] = {}
    for member in members:
        batches.setdefault(id(row_of(contexts[member]).batch), []).append(member)
    for together in batches.values():
        together.sort(key=lambda member: row_of(contexts[member]).place)
        first = row_of(contexts[together[0]])
        yield Standing(first.target, first.batch, tuple(together), contexts)


def row_of(context: DraftContext) -> TargetRow:
    """Where a request stands."""
    if context.row is None:
        raise ValueError("a draft by the target needs the request's row")
    return context.row


@dataclass
class GrowingChain:
    """A chain on its way: the tokens so far and, above temperature 0, the distributions that they were drawn from.

    It ends before the last token that may still be emitted, for the target chooses that one anyway.
    """

    context: DraftContext
    most: int
    tokens: list[int] = field(default_factory=list)
    drawn_from: dict[int, Tensor] = field(default_factory=dict)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.most = min(self.most, self.context.remaining - 1)
        # In the order of the chain's tokens, whatever the other requests do.
        self._random = np.random.default_rng(self.context.seed) if self.context.temperature else None

    @property
    def is_growing(self) -> bool:
        """Whether another token may follow."""
        return not self.is_over and len(self.tokens) < self.most

    @property
    def last(self) -> int:
        """The token to go on from."""
        return self.tokens[-1] if self.tokens else self.context.tokens[-1]

    def uniform(self) -> float:
        """What the next token is drawn with."""
        return self._random.random() if self._random else 0.0

    def add(self, token: int, q: Tensor | None) -> None:
        """Add the next token, chosen from ``q`` [vocabulary] where it was drawn."""
        if self.context.temperature and q is not None:
            self.drawn_from[len(self.tokens) - 1] = q
        self.tokens.append(token)

    def tree(self) -> TokenTree:
        """The chain as it is proposed."""
        return replace(TokenTree.chain(self.tokens), drawn_from=self.drawn_from)


def extend(chains: Sequence[GrowingChain], logits: Tensor) -> None:
    """Add a token to each chain by ``logits`` [n, vocabulary] after the last one: the likeliest, or a drawn one."""
    tokens, q = choose(
        logits, [chain.context.temperature for chain in chains], [chain.uniform() for chain in chains]
    )
    for place, (chain, token) in enumerate(zip(chains, tokens, strict=True)):
        chain.add(token, None if q is None else q[place])


def certainty(logits: Tensor) -> list[float]:
    """Probability of the likeliest token after ``logits`` [n, vocabulary]."""
    scores = logits.float()
    found: list[float] = (scores.amax(-1) - scores.logsumexp(-1)).exp().tolist()
    return found
