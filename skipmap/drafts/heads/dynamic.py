"""Dynamic trees from an EAGLE head (EAGLE-2, Li et al. 2024): the paths that the head itself holds likeliest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skipmap.drafts.heads.engine import HeadEngine
from skipmap.drafts.heads.memory import Drafting
from skipmap.tree import ROOT, TokenTree


@dataclass(frozen=True)
class Growth:
    """How large a tree grows.

    ``total_tokens``: positions, root included; ``depth``: forwards of the head; ``top_k``: nodes that each of them
    runs, and continuations of each node.
    """

    total_tokens: int
    depth: int
    top_k: int

    @property
    def slots(self) -> int:
        """Positions that the head runs."""
        return self.depth * self.top_k

    def tree_size(self, vocabulary_size: int) -> int:
        """Most positions that come of it, root included."""
        k = min(self.top_k, vocabulary_size)
        return min(self.total_tokens, 1 + k + self.depth * k * k)


@dataclass
class _Pool:
    """All candidates so far, [n, candidates] each: sums of log-probabilities, tokens, and parents in the pool."""

    scores: Tensor
    tokens: Tensor
    parents: Tensor
    depths: list[int]

    def add(self, scores: Tensor, tokens: Tensor, parents: Tensor) -> None:
        self.depths += [self.depths[-1] + 1] * scores.shape[1]
        self.scores = torch.cat([self.scores, scores], dim=1)
        self.tokens = torch.cat([self.tokens, tokens], dim=1)
        self.parents = torch.cat([self.parents, parents], dim=1)


def dynamic_trees(engine: HeadEngine, drafting: Drafting, growth: Growth) -> list[TokenTree]:
    """The tree of the best nodes for each request; a node is worth the product of the probabilities on its path."""
    n, width = drafting.tips.shape
    scores, tokens = (x.cpu() for x in engine.best(drafting.tips, growth.top_k))
    k = scores.shape[1]
    pool = _Pool(scores, tokens, torch.full_like(tokens, ROOT), [1] * k)
    # What runs next: places in the pool, and whose features and slots each node sees.
    front = torch.arange(k).expand(n, k)
    features, seen = drafting.tips[:, None].expand(n, k, width), torch.zeros(n, k, 0, dtype=torch.bool)
    own = torch.eye(k, dtype=torch.bool).expand(n, k, k)
    for level in range(min(growth.depth, max(c.remaining for c in drafting.contexts) - 1)):
        seen = torch.cat([seen, own], dim=2)
        output = engine.run(
            drafting.batch,
            drafting.rows,
            pool.tokens.gather(1, front),
            features.flatten(0, 1),
            torch.full((n,), k),
            depths=torch.arange(level + 1).repeat_interleave(k).expand(n, -1),
            ancestors=seen,
            ahead=level * k,
        )
        values, tokens = (x.cpu().view(n, k * k) for x in engine.best(output, k))
        scores = values + pool.scores.gather(1, front).repeat_interleave(k, dim=1)
        first = pool.scores.shape[1]
        pool.add(scores, tokens, front.repeat_interleave(k, dim=1))
        best = scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
        parent = best // k
        front = first + best
        seen = seen.gather(1, parent[..., None].expand(n, k, seen.shape[2]))
        at = parent.to(output.device)[..., None].expand(n, k, width)
        features = output.view(n, k, width).gather(1, at)
    return _choose(pool, [context.remaining for context in drafting.contexts], growth.total_tokens - 1)


def _choose(pool: _Pool, remaining: list[int], count: int) -> list[TokenTree]:
    """The ``count`` best candidates of each request that may still be emitted.

    No candidate is worth more than its parent, and of equals the earlier is better: parents are always among them.
    """
    depths = torch.tensor(pool.depths)
    too_deep = depths > torch.tensor(remaining)[:, None]
    order = pool.scores.masked_fill(too_deep, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    trees = []
    for row, deep in enumerate(too_deep.tolist()):
        kept = sorted(place for place in order[row, :count].tolist() if not deep[place])
        at = {place: node for node, place in enumerate(kept)} | {ROOT: ROOT}
        tokens, parents = pool.tokens[row].tolist(), pool.parents[row].tolist()
        trees.append(
            TokenTree(tuple(tokens[place] for place in kept), tuple(at[parents[place]] for place in kept))
        )
    return trees
