"""Lookahead decoding (Fu et al. 2024): the target's own Jacobi iterations yield n-grams, which it then verifies.

A window of N-1 rows stands after the root. Row l, column c is at the root's position + l + c, and the root itself is
row 0, column 0:

    row 0   root --- a1 --- a2      A row is what the target chose in one step after the cells of the row above.
             |       |      |       A cell sees its column above and, from there, row 0 to the left; so the window is
    row 1    b0      b1     b2      a comb, and a token tree like any other. The target's choices after the last row
             |       |      |       complete one n-gram a column (root b0 c0 + choice), and are the next last row.
    row 2    c0      c1     c2

After each step the rows move up, and their columns to the left, since the root has moved on. This is done by one column
a step, as published, also where a step emits more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.drafts.ngram_pool import NgramPool
from skipmap.tree import ROOT, TokenTree


class LookaheadParams(DraftParams):
    """Defaults are Spec-Bench's: 5-grams, window and guess set of 7."""

    level: int = Field(default=5, ge=2, le=8, description="N: tokens of an n-gram, its first one included")
    window: int = Field(default=7, ge=1, le=64, description="W: columns of the window, the root's included")
    guesses: int = Field(default=7, ge=1, le=64, description="G: n-grams kept after each token")
    pool_from_prompt: bool = Field(
        default=False, description="whether n-grams of the prompt and of the answer are kept as well"
    )


@dataclass
class LookaheadState:
    """The n-gram pool and the window; row 0 lacks the root.

    ``recent``: end of the text, from which n-grams may still grow.
    """

    pool: NgramPool
    rows: list[list[int]] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)


class Lookahead:
    """Tree draft from n-grams that the target produced itself, with the window that produces more of them.

    Nodes of the window are drafts like the guesses: where the target agrees with them they are accepted, which the
    published code does not do. So is the last token of an n-gram, which its loop cannot accept. A cell and a guess
    with the same parent and token are one node. The pool learns from the window alone unless ``pool_from_prompt``.
    """

    name: ClassVar[str] = "lookahead"
    summary: ClassVar[str] = "n-grams from the target's own Jacobi iterations"
    params_type: ClassVar[type[DraftParams]] = LookaheadParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(top_k=1)
    fingerprint: str | None = None

    def __init__(self, params: LookaheadParams, resources: Resources | None = None) -> None:
        self.params = params

    @property
    def tree_size(self) -> int:
        """Most positions that a step scores, root included."""
        p = self.params
        guesses = p.guesses * (p.level - 1)
        full = (p.level - 1) * p.window
        # Row 0 starts so long that a column is left for every step that adds a row.
        filling = [rows * (p.window + p.level - 1 - rows) for rows in range(1, p.level - 1)]
        early = guesses if p.pool_from_prompt else 0
        return max(full + guesses, *(cells + early for cells in filling), 0)

    def fresh(self, previous: Any = None) -> LookaheadState:
        """An empty pool; the window is filled in the first steps."""
        return LookaheadState(NgramPool(self.params.guesses))

    def propose(self, state: LookaheadState, context: DraftContext) -> TokenTree:
        """Guesses from the pool and the window, in one tree."""
        tokens, p = context.tokens, self.params
        if not state.rows:
            prompt = tokens[:-1] or tokens
            state.rows = [random.Random(context.seed).choices(prompt, k=p.window + p.level - 3)]
        tree = _Branches()
        for guess in state.pool.after(tokens[-1]):
            node = ROOT
            for token in guess:
                node = tree.add(node, token)
        _last_row(state.rows, tree.add)
        return TokenTree(tuple(tree.tokens), tuple(tree.parents))

    def observe(self, state: LookaheadState, outcome: StepOutcome) -> None:
        """Take the target's choices after the last row into window and pool."""
        if outcome.root is not None:
            self._move(state, outcome.root, outcome)
        if self.params.pool_from_prompt:
            text = [*state.recent, *outcome.prompt, *outcome.emitted]
            state.pool.add_text(text, self.params.level)
            state.recent = text[-(self.params.level - 1) :]

    def _move(self, state: LookaheadState, root: int, outcome: StepOutcome) -> None:
        if outcome.top_tokens is None:
            raise ValueError(f"{self.name} needs the top token of every scored position")
        nodes = {
            (parent, token): node
            for node, (parent, token) in enumerate(
                zip(outcome.tree.parents, outcome.tree.tokens, strict=True)
            )
        }
        try:
            last = _last_row(state.rows, lambda parent, token: nodes[parent, token])
        except KeyError:
            # The answer is about to end, and the deep cells were cut off: the window has done its work.
            return
        best = outcome.top_tokens[:, 0].tolist()
        choices = [best[1 + node] for node in last]
        rows = [*state.rows, choices]
        if len(rows) < self.params.level:
            state.rows = [row[1:] for row in rows]
            return
        for ngram in zip([root, *rows[0]], *rows[1:], strict=True):
            state.pool.add(ngram)
        # What row 0 says of the next root's position is known by now.
        state.rows = [rows[1][1:], *rows[2:]]


class _Branches:
    """A token tree in the making, where a parent has one child for each token."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self._nodes: dict[tuple[int, int], int] = {}

    def add(self, parent: int, token: int) -> int:
        """The parent's child with that token, new or not."""
        node = self._nodes.setdefault((parent, token), len(self.tokens))
        if node == len(self.tokens):
            self.tokens.append(token)
            self.parents.append(parent)
        return node


def _last_row(rows: Sequence[Sequence[int]], child: Callable[[int, int], int]) -> list[int]:
    """Nodes of the window's last row, column by column; ``child`` gives the node for a parent and a token."""
    nodes = [ROOT]
    for token in rows[0]:
        nodes.append(child(nodes[-1], token))
    for row in rows[1:]:
        nodes = [child(parent, token) for parent, token in zip(nodes, row, strict=True)]
    return nodes
