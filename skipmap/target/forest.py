"""Forest: the token trees of several rows as one step takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from skipmap.tree import TokenTree


@dataclass(frozen=True)
class Forest:
    """One tree a row, root first, padded to the largest; all tensors are on the CPU.

    ``tokens`` [n, t]; ``counts`` [n]: real tokens of each row; ``depths`` [n, t] from the root (0) and ``ancestors``
    [n, t, t] (bool: which tokens of its tree each one sees), both None when all trees are chains.
    """

    tokens: Tensor
    counts: Tensor
    depths: Tensor | None = None
    ancestors: Tensor | None = None


def plant(roots: Sequence[int], trees: Sequence[TokenTree]) -> Forest:
    """Each row's root with its drafted tree."""
    rows = [[root, *tree.tokens] for root, tree in zip(roots, trees, strict=True)]
    counts = [len(row) for row in rows]
    width = max(counts)
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    if all(tree.is_chain for tree in trees):
        return Forest(tokens, torch.tensor(counts))
    depths = torch.zeros(len(rows), width, dtype=torch.long)
    # Padding sees itself: what it computes is never read, but must be finite.
    ancestors = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    for row, (count, tree) in enumerate(zip(counts, trees, strict=True)):
        depths[row, :count], ancestors[row, :count, :count] = _layout(tree.parents)
    return Forest(tokens, torch.tensor(counts), depths, ancestors)


@lru_cache(maxsize=32)
def _layout(parents: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Depths and ancestor mask of a shape; drafts with a fixed one come with it in every step."""
    tree = TokenTree(parents, parents)
    return torch.tensor([0, *tree.depths]), torch.from_numpy(tree.ancestors)
