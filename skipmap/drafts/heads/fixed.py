"""Trees of a fixed shape from an EAGLE head (EAGLE-1): one forward of the head for each depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from skipmap.drafts.base import DraftContext
from skipmap.drafts.heads.engine import HeadEngine
from skipmap.drafts.heads.memory import Drafting
from skipmap.drafts.shapes import Shape
from skipmap.tree import ROOT, TokenTree


@dataclass(frozen=True)
class Levels:
    """A shape by depth: the nodes at each depth that have children, from the root (``ROOT``) on."""

    shape: Shape

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Children of each node in rank order."""
        return TokenTree(self.shape.parents, self.shape.parents).children

    @cached_property
    def inner(self) -> list[list[int]]:
        """Nodes with children by depth."""
        found = [[ROOT]] if len(self.shape) else []
        while found and (below := [c for n in found[-1] for c in self.children[n] if c in self.children]):
            found.append(below)
        return found

    @property
    def slots(self) -> int:
        """Positions that the head runs; what it predicts after the root is known."""
        return sum(map(len, self.inner[1:]))


def fixed_trees(engine: HeadEngine, drafting: Drafting, levels: Levels, *, draws: bool) -> list[TokenTree]:
    """A tree of the shape for each request: the likeliest tokens, or above temperature 0 drawn ones where ``draws``."""
    picks = [_Picks(context, draws) for context in drafting.contexts]
    n, width = drafting.tips.shape
    features, ahead = drafting.tips[:, None], 0
    place = {ROOT: 0}
    seen = torch.zeros(1, 0, dtype=torch.bool)
    depths: list[int] = []
    for depth, inner in enumerate(levels.inner):
        if depth == max(context.remaining for context in drafting.contexts):
            break
        if depth:
            parents = [levels.shape.parents[node] for node in inner]
            own = torch.eye(len(inner), dtype=torch.bool)
            above = seen[[place[parent] for parent in parents]] if depth > 1 else seen.expand(len(inner), 0)
            seen = torch.cat([above, own], dim=1)
            depths += [depth - 1] * len(inner)
            output = engine.run(
                drafting.batch,
                drafting.rows,
                torch.tensor([[pick.token(node) for node in inner] for pick in picks]),
                features[:, [place[parent] for parent in parents]].flatten(0, 1),
                torch.full((n,), len(inner)),
                depths=torch.tensor(depths).expand(n, -1),
                ancestors=seen.expand(n, *seen.shape),
                ahead=ahead,
            )
            ahead += len(inner)
            features = output.view(n, len(inner), width)
            place = {node: at for at, node in enumerate(inner)}
        _pick(engine, features, inner, levels.children, picks)
    return [pick.tree(levels.shape) for pick in picks]


class _Picks:
    """The tokens of one request's tree by the shape's nodes; a node that could not be drawn is not there."""

    def __init__(self, context: DraftContext, draws: bool) -> None:
        self.temperature = context.temperature if draws else 0.0
        self._tokens: dict[int, int] = {}
        self._drawn_from: dict[int, Tensor] = {}
        self._rng = np.random.default_rng(context.seed) if self.temperature else None

    def token(self, node: int) -> int:
        """Of a node; any token for one that is not there, whose children are not either."""
        return self._tokens.get(node, 0)

    def choose(self, children: Sequence[int], tokens: Sequence[int]) -> None:
        """Give children the best tokens."""
        self._tokens.update(zip(children, tokens, strict=False))

    def draw(self, node: int, children: Sequence[int], q: Tensor) -> None:
        """Draw the children's tokens from ``q`` [vocabulary] without replacement: the first of a race to arrive."""
        assert self._rng is not None
        speeds, count = q.numpy(), len(children)
        order = -speeds / self._rng.standard_exponential(len(speeds), dtype=np.float32)
        first = np.argpartition(order, count - 1)[:count]
        arrived = first[np.argsort(order[first], kind="stable")]
        self._tokens.update(
            (child, int(token)) for child, token in zip(children, arrived, strict=True) if speeds[token] > 0
        )
        self._drawn_from[node] = q

    def tree(self, shape: Shape) -> TokenTree:
        """What came to be of the shape."""
        kept: dict[int, int] = {ROOT: ROOT}
        for node, parent in enumerate(shape.parents):
            if node in self._tokens and parent in kept:
                kept[node] = len(kept) - 1
        nodes = [node for node in kept if node != ROOT]
        return TokenTree(
            tuple(self._tokens[node] for node in nodes),
            tuple(kept[shape.parents[node]] for node in nodes),
            {kept[node]: q for node, q in self._drawn_from.items() if node in kept},
        )


def _pick(
    engine: HeadEngine,
    features: Tensor,
    inner: Sequence[int],
    children: Mapping[int, tuple[int, ...]],
    picks: Sequence[_Picks],
) -> None:
    """Give the children of the nodes ``inner`` their tokens; ``features`` [n, inner, width]."""
    chosen = [at for at, pick in enumerate(picks) if not pick.temperature]
    if chosen:
        most = max(len(children[node]) for node in inner)
        _, tokens = engine.best(features[chosen].flatten(0, 1), most)
        table = tokens.view(len(chosen), len(inner), -1).tolist()
        for at, row in zip(chosen, table, strict=True):
            for node, best in zip(inner, row, strict=True):
                picks[at].choose(children[node], best)
    for at, pick in enumerate(picks):
        if pick.temperature:
            scores = engine.logits(features[at]) / pick.temperature
            for node, q in zip(inner, scores.softmax(-1).cpu(), strict=True):
                pick.draw(node, children[node], q)
