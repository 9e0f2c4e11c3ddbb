"""Chains whose tokens leave the target at different depths.

A token runs up to an exit, is judged there, and goes on from its states to the next one if it must. What it wrote below
its exit is all that later tokens find of it, so none of them may go deeper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skipmap.drafts.base import DraftContext
from skipmap.drafts.thinned.rows import GrowingChain, Standing, certainty, extend, standings
from skipmap.skipset import SkipSet
from skipmap.target.detour import Detour, SubLayers
from skipmap.tree import TokenTree


@dataclass(frozen=True)
class Reading:
    """What an exit shows of a token: the likeliest next one and its probability."""

    token: int
    probability: float


Rule = Callable[[Sequence[Reading]], bool]
"""Whether a token that has been read at these exits, in order, may leave at the last of them."""


@dataclass
class _Exiting(GrowingChain):
    """A chain whose next token may run ``depth`` exits; ``readings``: of that token so far."""

    depth: int = 0
    readings: list[Reading] = field(default_factory=list)


def draft_exits(
    contexts: Sequence[DraftContext], exits: Sequence[int], rule: Rule, most: int
) -> list[TokenTree]:
    """A chain for each request. ``exits``: blocks that have run at each, ascending; ``most``: tokens."""
    trees = [TokenTree()] * len(contexts)
    for standing in standings(contexts, range(len(contexts))):
        chains = [_Exiting(contexts[member], most, depth=len(exits)) for member in standing.members]
        places = standing.rows(standing.members)
        length = 0
        while growing := [place for place, chain in enumerate(chains) if chain.is_growing]:
            _grow(standing, places, chains, growing, exits, rule, length)
            length += 1
        for member, chain in zip(standing.members, chains, strict=True):
            trees[member] = chain.tree()
    return trees


def _grow(
    standing: Standing,
    places: Tensor,
    chains: Sequence[_Exiting],
    growing: Sequence[int],
    exits: Sequence[int],
    rule: Rule,
    length: int,
) -> None:
    """One token more for each growing chain where the rule is met in time; the others are over."""
    waiting = list(growing)
    for chain in (chains[place] for place in waiting):
        chain.readings, chain.is_over = [], True
    states: Tensor | None = None
    for depth, exit_at in enumerate(exits):
        start = exits[depth - 1] if depth else 0
        hidden, states = _segment(
            standing,
            places[waiting],
            [chains[place].last for place in waiting],
            length,
            start,
            exit_at,
            states,
        )
        logits = standing.target.logits(hidden)
        read = map(Reading, logits.argmax(-1).tolist(), certainty(logits))
        leaving, going = [], []
        for at, (place, reading) in enumerate(zip(waiting, read, strict=True)):
            chain = chains[place]
            chain.readings.append(reading)
            if rule(chain.readings):
                chain.depth, chain.is_over = depth + 1, False
                leaving.append(at)
            elif depth + 1 < chain.depth:
                going.append(at)
        if leaving:
            extend([chains[waiting[at]] for at in leaving], logits[leaving])
        if not going:
            return
        waiting = [waiting[at] for at in going]
        states = None if states is None else states[going]


def _segment(
    standing: Standing,
    rows: Tensor,
    tokens: Sequence[int],
    length: int,
    start: int,
    stop: int,
    states: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Run blocks [start, stop) for one token a row, from ``states`` [n, 1, width] on.

    Returns the states after the final norm [n, width], and those that enter block ``stop`` where there is one.
    """
    count = standing.target.num_layers
    outside = SkipSet.of([*range(start), *range(stop, count)])
    output = standing.target.step(
        standing.batch,
        torch.tensor(tokens)[:, None],
        rows=rows,
        ahead=length,
        capture=frozenset({stop}) if stop < count else frozenset(),
        detour=Detour(SubLayers.of_blocks(outside), inject={} if states is None else {start: states}),
    )
    return output.hidden[:, 0], output.block_inputs.get(stop)
