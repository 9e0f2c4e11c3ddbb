"""Lookahead decoding (Fu et al. 2024): the target's own Jacobi iterations yield n-grams, which it then verifies.

A window of N-1 rows and W columns stands below the root; row l, column c is at the root's position + 1 + c + l:

    root --- a0 --- a1 --- a2      A row holds what the target chose, in one step, after the cells of the row above.
             |      |      |       A cell sees its column above and, from there, row 0 to the left and the root: the
             b0     b1     b2      window is a comb, and a token tree like any other. The target's choices after the
             |      |      |       last row complete one n-gram a column (a0 b0 c0 + choice), and become the last row
             c0     c1     c2      when all rows move up.

Moving up brings every cell one position nearer to the root, which is right if the root has moved on by one token. Where
a step emits more, the window lags behind the text, as in the published code. That code starts the window one position
earlier, with the root as its first cell; here every cell is a draft.
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
    window: int = Field(default=7, ge=1, le=64, description="W: columns of the window")
    guesses: int = Field(default=7, ge=1, le=64, description="G: n-grams kept after each token")
    pool_from_prompt: bool = Field(
        default=False, description="whether n-grams of the prompt and of the answer are kept as well"
    )


@dataclass
class LookaheadState:
    """The n-gram pool and the window's rows.

    ``recent``: end of the text, from which n-grams may still grow.
    """

    pool: NgramPool
    rows: list[list[int]] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)


class Lookahead:
    """Tree draft from n-grams that the target produced itself, with the window that produces more of them.

    Nodes of the window are drafts like the guesses: where the target agrees with them they are accepted, which the
    published code does not do. So is the last token of an n-gram, which its loop cannot accept. A cell and a guess
    with the same parent and token are one node.

    The pool learns from the window alone, and with ``pool_from_prompt`` from prompt and answer as well: from the answer
    as it stands, where the published code notes a step's last token in place of each of its tokens.
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
        # While the window is filled its rows are longer: each step that adds a row costs them a column.
        filling = max((rows * (p.window + p.level - 1 - rows) for rows in range(1, p.level - 1)), default=0)
        early = guesses if p.pool_from_prompt else 0
        return 1 + max((p.level - 1) * p.window + guesses, filling + early)

    def fresh(self, previous: Any = None) -> LookaheadState:
        """An empty pool; the window is filled in the first steps."""
        return LookaheadState(NgramPool(self.params.guesses))

    def propose(self, state: LookaheadState, context: DraftContext) -> TokenTree:
        """Guesses from the pool and the window, in one tree."""
        tokens, p = context.tokens, self.params
        if not state.rows:
            prompt = tokens[:-1] or tokens
            state.rows = [random.Random(context.seed).choices(prompt, k=p.window + p.level - 2)]
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
            self._move(state, outcome)
        if self.params.pool_from_prompt:
            text = [*state.recent, *outcome.prompt, *outcome.emitted]
            state.pool.add_text(text, self.params.level)
            state.recent = text[-(self.params.level - 1) :]

    def _move(self, state: LookaheadState, outcome: StepOutcome) -> None:
        tree, top = outcome.tree, outcome.top_tokens
        if top is None:
            raise ValueError(f"{self.name} needs the top token of every scored position")
        nodes = {branch: node for node, branch in enumerate(zip(tree.parents, tree.tokens, strict=True))}
        try:
            last = _last_row(state.rows, lambda parent, token: nodes[parent, token])
        except KeyError:
            # The answer is about to end, so that deep cells were cut off: the window has done its work.
            return
        best = top[:, 0].tolist()
        rows = [*state.rows, [best[1 + node] for node in last]]
        if len(rows) < self.params.level:
            state.rows = [row[1:] for row in rows]
            return
        for ngram in zip(*rows, strict=True):
            state.pool.add(ngram)
        state.rows = rows[1:]


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
    nodes: list[int] = []
    for token in rows[0]:
        nodes.append(child(nodes[-1] if nodes else ROOT, token))
    for row in rows[1:]:
        nodes = [child(parent, token) for parent, token in zip(nodes, row, strict=True)]
    return nodes
