"""Token trees that one or several small models grow together, level by level.

Without sampling each model grows a tree of its own, by its own likeliest tokens, and a node that several of them have
is one node. With sampling that would take away what exact verification needs: one distribution that a node's children
were drawn from, without replacement. So there all models score all nodes, and children are drawn from the mean of their
distributions. Either way a node is as deep, and a level as wide, as in the models' trees side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import mul

import numpy as np
from torch import Tensor

from skipmap.drafts.base import DraftContext
from skipmap.drafts.small.choice import distributions, draw_some, likeliest
from skipmap.drafts.small.reader import Reader, Reading
from skipmap.tree import ROOT, TokenTree


@dataclass
class _Growth:
    """A tree in the making.

    ``depth``: levels that it may have; ``tips``: nodes whose children come next; ``owners``: models that grow on from
    a node; ``places``: of nodes in each model's cache.
    """

    context: DraftContext
    readings: Sequence[Reading]
    depth: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    tips: list[int] = field(default_factory=lambda: [ROOT])
    owners: dict[int, set[int]] = field(default_factory=dict)
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    drawn_from: dict[int, Tensor] = field(default_factory=dict)
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)

    def owned(self, model: int) -> list[int]:
        """Tips that a model grows on from."""
        return [tip for tip in self.tips if model in self.owners[tip]]

    @cached_property
    def uniforms(self) -> np.random.Generator:
        """What its tokens are drawn with."""
        return np.random.default_rng(self.context.seed)

    def add(self, parent: int, token: int, models: Sequence[int]) -> None:
        """The parent's child with that token, new or not, belongs to ``models``."""
        node = self._nodes.setdefault((parent, token), len(self.tokens))
        if node == len(self.tokens):
            self.tokens.append(token)
            self.parents.append(parent)
        self.owners.setdefault(node, set()).update(models)


@dataclass
class _Scores:
    """What a model gives after some tips: logits [tips, vocabulary], None without any."""

    tips: list[tuple[_Growth, int]]
    logits: Tensor | None

    def of(self, *, warm: bool) -> tuple[list[tuple[_Growth, int]], Tensor | None]:
        """Those of trees whose tokens are drawn, or of the others."""
        places = [i for i, (growth, _) in enumerate(self.tips) if bool(growth.context.temperature) == warm]
        if self.logits is None or not places:
            return [], None
        return [self.tips[i] for i in places], self.logits[places]


class Trees:
    """Drafts trees with small models; ``widths``: children of a node, depth by depth, in each model's tree."""

    def __init__(self, readers: Sequence[Reader], widths: Sequence[int]) -> None:
        self._readers = readers
        self._widths = widths
        self._models = range(len(readers))
        self.size: int = len(readers) * sum(accumulate(widths, mul))
        """Most nodes of a tree."""

    def fresh(self) -> list[Reading]:
        """State for a new prompt: its place in each model's cache."""
        return [Reading() for _ in self._readers]

    def draft(self, states: Sequence[list[Reading]], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """A tree after each text; less deep where a model's context ends. ``states``: those of all that go on."""
        for model, reader in enumerate(self._readers):
            reader.narrow([readings[model] for readings in states])
        growths = [
            _Growth(context, readings, self._depth(context))
            for readings, context in zip(states, contexts, strict=True)
        ]
        for level, width in enumerate(self._widths):
            going = [growth for growth in growths if growth.depth > level]
            if not going:
                break
            before = [len(growth.tokens) for growth in going]
            scores = [self._score(model, going) for model in self._models]
            self._branch(scores, width)
            self._branch_by_chance(scores, width if level else width * len(self._models))
            for growth, first in zip(going, before, strict=True):
                growth.tips = list(range(first, len(growth.tokens)))
        return [
            TokenTree(tuple(growth.tokens), tuple(growth.parents), growth.drawn_from) for growth in growths
        ]

    def _depth(self, context: DraftContext) -> int:
        rooms = [reader.room(context.tokens) for reader in self._readers]
        return min(len(self._widths), context.remaining, *rooms)

    def _score(self, model: int, growths: Sequence[_Growth]) -> _Scores:
        """Run the tips that a model grows on from."""
        reader = self._readers[model]
        if not growths[0].tokens:
            logits = reader.read(
                [growth.readings[model] for growth in growths],
                [growth.context.tokens for growth in growths],
                [growth.context.remaining + self.size for growth in growths],
            )
            return _Scores([(growth, ROOT) for growth in growths], logits)
        owned = [(growth, tips) for growth in growths if (tips := growth.owned(model))]
        if not owned:
            return _Scores([], None)
        logits, places = reader.grow(
            [growth.readings[model] for growth, _ in owned],
            [
                [(growth.tokens[tip], growth.places.get((model, growth.parents[tip]), ROOT)) for tip in tips]
                for growth, tips in owned
            ],
        )
        for (growth, tips), own in zip(owned, places, strict=True):
            growth.places.update(((model, tip), place) for tip, place in zip(tips, own, strict=True))
        return _Scores([(growth, tip) for growth, tips in owned for tip in tips], logits)

    def _branch(self, scores: Sequence[_Scores], width: int) -> None:
        """Give tips the likeliest tokens of each model as children."""
        for model, found in enumerate(scores):
            tips, logits = found.of(warm=False)
            if logits is None:
                continue
            for (growth, tip), tokens in zip(tips, likeliest(logits, width), strict=True):
                for token in tokens:
                    growth.add(tip, token, [model])

    def _branch_by_chance(self, scores: Sequence[_Scores], count: int) -> None:
        """Give tips children that are drawn from the mean of the models' distributions."""
        given = [found.of(warm=True) for found in scores]
        tips = given[0][0]
        temperatures = [growth.context.temperature for growth, _ in tips]
        q = sum(distributions(logits, temperatures) for _, logits in given if logits is not None)
        if not isinstance(q, Tensor):
            return
        q /= len(self._models)
        uniforms = [growth.uniforms.random(count).tolist() for growth, _ in tips]
        for (growth, tip), own, tokens in zip(tips, q, draw_some(q, count, uniforms), strict=True):
            growth.drawn_from[tip] = own
            for token in tokens:
                growth.add(tip, token, self._models)
