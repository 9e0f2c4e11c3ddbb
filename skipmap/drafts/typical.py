"""Typical acceptance (Medusa, Cai et al. 2024): what the target would not be surprised by is accepted.

Lossy: a drafted token need not be the one that the target would have chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

from skipmap.drafts.base import Chooser
from skipmap.tree import ROOT, TokenTree

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TypicalAcceptance:
    """A node passes when the target's probability of it is above min(``threshold``, ``alpha`` * exp(-entropy)).

    Of the paths on which all nodes pass the longest is accepted, of equally long ones the likeliest.
    """

    threshold: float
    alpha: float

    def accept(self, tree: TokenTree, logits: Tensor, chooser: Chooser, done: int) -> tuple[list[int], int]:
        """Accepted nodes in order, and the token that the target itself chooses after the last of them.

        ``logits`` [1 + nodes, vocabulary] after the root and each node; ``done``: new tokens so far, root included.
        """
        likelihood = {ROOT: 0.0}
        depths = (*tree.depths, 0)
        for node, children in sorted(tree.children.items()):
            if node not in likelihood:
                continue
            p = chooser.probabilities(logits[node + 1])
            log = p.clamp_min(1e-300).log()
            entropy = -float((p * log).sum())
            bar = min(self.threshold, self.alpha * exp(-entropy))
            for child in children:
                if float(p[tree.tokens[child]]) > bar:
                    likelihood[child] = likelihood[node] + float(log[tree.tokens[child]])
        node = max(likelihood, key=lambda node: (depths[node], likelihood[node], -node))
        path: list[int] = []
        while node != ROOT:
            path.insert(0, node)
            node = tree.parents[node]
        last = path[-1] if path else ROOT
        return path, chooser.token(logits[last + 1], done + len(path))
