"""The oracle: EAGLE heads written down from their description, over whole sequences, without any cache.

And trees grown by running everything anew for every node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from tests.drafts.heads.published import KV, A, D

EPS, THETA = 1e-5, 10000.0

Path = tuple[int, ...]


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * weight


def rotate(x: Tensor) -> Tensor:
    """Rotary positions 0..t-1 on [t, heads, D]."""
    angles = torch.outer(torch.arange(len(x)), THETA ** (-torch.arange(0, D, 2) / D))[:, None]
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


def attention(w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Causal attention over [t, entering]."""
    t = len(x)
    parts = [
        functional.linear(x, w[f"self_attn.{p}_proj.weight"], w.get(f"self_attn.{p}_proj.bias"))
        for p in "qkv"
    ]
    query = rotate(parts[0].view(t, A, D))
    key, value = (
        y.repeat_interleave(A // KV, 1) for y in (rotate(parts[1].view(t, KV, D)), parts[2].view(t, KV, D))
    )
    scores = torch.einsum("qad,kad->aqk", query, key) / D**0.5
    scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
    mixed = torch.einsum("aqk,kad->qad", scores.softmax(-1), value).reshape(t, A * D)
    return mixed @ w["self_attn.o_proj.weight"].T


def mlp(w: Mapping[str, Tensor], x: Tensor) -> Tensor:
    gated = functional.silu(x @ w["mlp.gate_proj.weight"].T) * (x @ w["mlp.up_proj.weight"].T)
    return gated @ w["mlp.down_proj.weight"].T


def block_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)}


@dataclass(frozen=True)
class PlainEagle:
    """EAGLE-1/2 by its file's tensors."""

    tensors: Mapping[str, Tensor]

    def fuse(self, states: Tensor) -> Tensor:
        return states

    def features(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """What it predicts at each place of a sequence, [t, H]."""
        w = block_of(self.tensors, "layers.0.")
        joined = torch.cat([embeddings, features], -1)
        x = functional.linear(joined, self.tensors["fc.weight"], self.tensors.get("fc.bias"))
        x = x + attention(w, x)
        return x + mlp(w, norm(x, w["post_attention_layernorm.weight"]))

    def scores(self, feature: Tensor, output: Callable[[Tensor], Tensor]) -> dict[int, float]:
        """Log-probability of each token after a predicted feature; ``output``: the target's last layer."""
        return dict(enumerate(output(feature).log_softmax(-1).tolist()))


@dataclass(frozen=True)
class PlainEagle3:
    """EAGLE-3 by its file's tensors."""

    tensors: Mapping[str, Tensor]
    norm_before_residual: bool = False

    def fuse(self, states: Tensor) -> Tensor:
        return states @ self.tensors["fc.weight"].T

    def features(self, embeddings: Tensor, features: Tensor) -> Tensor:
        w = block_of(self.tensors, "midlayer.")
        normed = norm(features, w["hidden_norm.weight"])
        both = torch.cat([norm(embeddings, w["input_layernorm.weight"]), normed], -1)
        x = (normed if self.norm_before_residual else features) + attention(w, both)
        return x + mlp(w, norm(x, w["post_attention_layernorm.weight"]))

    def scores(self, feature: Tensor, output: Callable[[Tensor], Tensor]) -> dict[int, float]:
        logits = norm(feature, self.tensors["norm.weight"]) @ self.tensors["lm_head.weight"].T
        tokens = range(len(logits))
        if "d2t" in self.tensors:
            tokens = [token + int(self.tensors["d2t"][token]) for token in tokens]
        return dict(zip(tokens, logits.log_softmax(-1).tolist(), strict=True))


@dataclass
class Oracle:
    """Continuations of one request: what the head says after a path of drafted tokens.

    ``states`` [t, ..]: the target's at all verified positions but the root's; ``tokens``: those after each of them, the
    root last. ``embed``: the target's embeddings.
    """

    head: PlainEagle | PlainEagle3
    embed: Callable[[Tensor], Tensor]
    output: Callable[[Tensor], Tensor]
    states: Tensor
    tokens: Sequence[int]
    _known: dict[Path, Tensor] = field(default_factory=dict)

    def feature(self, path: Path) -> Tensor:
        """What it predicts at the last token of a path; at the root for an empty one."""
        if path not in self._known:
            self._known[path] = self._run(path)
        return self._known[path]

    def _run(self, path: Path) -> Tensor:
        features = [self.head.fuse(self.states)]
        features += [self.feature(path[:end])[None] for end in range(len(path))]
        embeddings = self.embed(torch.tensor([*self.tokens, *path]))
        return self.head.features(embeddings, torch.cat(features))[-1]

    def best(self, path: Path, count: int) -> list[tuple[int, float]]:
        """Tokens with their log-probabilities, the likeliest first."""
        scores = self.head.scores(self.feature(path), self.output)
        return sorted(scores.items(), key=lambda item: -item[1])[:count]

    def fixed(self, shape: Mapping[Path, int], depth: int) -> set[Path]:
        """Paths of a tree of fixed shape; ``shape``: how many children a path of ranks has."""
        found: dict[Path, Path] = {(): ()}
        for ranks, children in sorted(shape.items(), key=lambda item: len(item[0])):
            if len(ranks) < depth:
                for rank, (token, _) in enumerate(self.best(found[ranks], children)):
                    found[*ranks, rank] = (*found[ranks], token)
        return {path for path in found.values() if path}

    def dynamic(self, total: int, depth: int, top_k: int, remaining: int) -> set[Path]:
        """The ``total`` - 1 best of all candidates, each worth the product of the probabilities on its path."""
        worth: dict[Path, float] = {(): 0.0}
        front: list[Path] = [()]
        for _ in range(1 + depth):
            below = {
                (*path, token): worth[path] + score
                for path in front
                for token, score in self.best(path, top_k)
            }
            worth |= below
            front = sorted(below, key=lambda path: -below[path])[:top_k]
        allowed = [path for path in worth if 0 < len(path) <= remaining]
        return set(sorted(allowed, key=lambda path: -worth[path])[: total - 1])
