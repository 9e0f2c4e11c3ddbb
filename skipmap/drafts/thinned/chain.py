"""Chains of a thinned target, grown one token a forward for all requests together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from skipmap.drafts.base import DraftContext
from skipmap.drafts.thinned.rows import GrowingChain, Standing, certainty, extend, standings
from skipmap.target.detour import Detour, SubLayers
from skipmap.tree import TokenTree


@dataclass(frozen=True)
class ChainRule:
    """How a request's chain is drafted.

    ``left_out``: of the target, besides the request's skip set; ``most``: tokens; ``confidence``: probability of the
    likeliest token below which it is the chain's last.
    """

    left_out: SubLayers
    most: int
    confidence: float


def draft_chains(contexts: Sequence[DraftContext], rules: Sequence[ChainRule | None]) -> list[TokenTree]:
    """A chain for each request, an empty one without a rule.

    Requests that leave out different things share the forwards; what one of them needs is computed for all.
    """
    trees = [TokenTree()] * len(contexts)
    drafting = {member: rule for member, rule in enumerate(rules) if rule is not None}
    for standing in standings(contexts, list(drafting)):
        chains = {
            member: GrowingChain(contexts[member], drafting[member].most) for member in standing.members
        }
        depth = 0
        while growing := [member for member, chain in chains.items() if chain.is_growing]:
            _grow(standing, growing, chains, drafting, depth)
            depth += 1
        for member, chain in chains.items():
            trees[member] = chain.tree()
    return trees


def _grow(
    standing: Standing,
    growing: Sequence[int],
    chains: dict[int, GrowingChain],
    rules: dict[int, ChainRule],
    depth: int,
) -> None:
    """One token more for each growing chain; all of them have ``depth`` tokens."""
    output = standing.target.step(
        standing.batch,
        torch.tensor([[chains[member].last] for member in growing]),
        rows=standing.rows(growing),
        ahead=depth,
        detour=Detour.leaving_out([rules[member].left_out for member in growing]),
    )
    logits = standing.target.logits(output.hidden[:, 0])
    extend([chains[member] for member in growing], logits)
    for member, certain in zip(growing, certainty(logits), strict=True):
        chains[member].is_over = certain < rules[member].confidence
