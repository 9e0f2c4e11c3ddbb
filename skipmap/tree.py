"""TokenTree: what a draft method proposes for one verification step.

Nodes stand in parent-before-child order and do not include the root, which is the token that the target has already
chosen. A chain is a tree with one path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

ROOT = -1


@dataclass(frozen=True)
class TokenTree:
    """Drafted tokens with their parents (``ROOT`` = -1 for children of the root).

    ``drawn_from``: node (or ``ROOT``) -> the draft's distribution [vocabulary] that its children were drawn from, one
    after the other, without replacement. A node that is not in it has children that the draft chose by a rule.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    drawn_from: Mapping[int, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a node that stands before its parent."""
        if len(self.tokens) != len(self.parents):
            raise ValueError(f"{len(self.tokens)} tokens but {len(self.parents)} parents")
        if any(not ROOT <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError(f"parents {self.parents} are not in parent-before-child order")

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> TokenTree:
        """One path: each token is the child of the one before."""
        return cls(tuple(tokens), tuple(range(ROOT, len(tokens) - 1)))

    def __len__(self) -> int:
        """Number of drafted nodes, without the root."""
        return len(self.tokens)

    @cached_property
    def is_chain(self) -> bool:
        """Whether every node is the child of the node before it."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    @cached_property
    def depth(self) -> int:
        """Depth of the deepest node; 0 for an empty tree."""
        return max(self.depths, default=0)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of each node; children of the root have depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Children of each node (and of ``ROOT``) in rank order."""
        found: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            found.setdefault(parent, []).append(node)
        return {parent: tuple(nodes) for parent, nodes in found.items()}

    @property
    def ancestors(self) -> npt.NDArray[np.bool_]:
        """Mask [1 + nodes, 1 + nodes] with the root first: row i sees column j iff j is i or an ancestor of i."""
        mask = np.eye(len(self) + 1, dtype=np.bool_)
        mask[:, 0] = True
        for node, parent in enumerate(self.parents):
            mask[node + 1] |= mask[parent + 1]
        return mask

    def truncate(self, depth: int) -> TokenTree:
        """The tree without the nodes deeper than ``depth``."""
        if self.depth <= depth:
            return self
        kept = [node for node in range(len(self)) if self.depths[node] <= depth]
        place = {node: index for index, node in enumerate(kept)} | {ROOT: ROOT}
        drawn = {place[node]: q for node, q in self.drawn_from.items() if node in place}
        return TokenTree(
            tuple(self.tokens[n] for n in kept), tuple(place[self.parents[n]] for n in kept), drawn
        )


def accept_greedy(tree: TokenTree, choices: Sequence[int]) -> tuple[list[int], int]:
    """Walk from the root along children that equal the target's choice.

    ``choices``: the target's argmax after the root and after each node, [1 + nodes]. Returns the accepted nodes in
    order and the token that the target chose after the last of them (the next root).
    """
    path: list[int] = []
    node = ROOT
    while True:
        wanted = choices[node + 1]
        match = next((child for child in tree.children.get(node, ()) if tree.tokens[child] == wanted), None)
        if match is None:
            return path, wanted
        path.append(match)
        node = match


def accept_text(tree: TokenTree, text: Sequence[int]) -> list[int]:
    """Nodes that greedy verification accepts when the target's continuation of the root is known to be ``text``."""
    path: list[int] = []
    node = ROOT
    for wanted in text:
        match = next((child for child in tree.children.get(node, ()) if tree.tokens[child] == wanted), None)
        if match is None:
            break
        path.append(match)
        node = match
    return path
