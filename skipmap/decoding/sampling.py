"""How the target's next token is chosen and which drafted nodes that accepts.

A request's i-th new token is decided by random numbers that depend on (seed, prompt, skip set) and i alone, so its
sampled text is the same in any batch and, for drafts that choose by a rule, with any draft: accepting the drafted
token that equals the sampled one is exact speculative sampling for a draft distribution of a single point.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from skipmap.decoding.options import DecodeOptions
from skipmap.skipset import SkipSet
from skipmap.tree import ROOT, TokenTree

_TEXT, _TESTS = 1, 2
"""Streams of a request's random numbers; NumPy's stream 0 is that of the bare seed, which drafts are given."""


def request_seed(seed: int, prompt: Sequence[int], skip: SkipSet) -> int:
    """Seed of one request's randomness: a function of seed, prompt and skip set, never of the batch."""
    text = f"{seed}:{skip}:{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def step_seed(request: int, done: int) -> int:
    """Seed of a draft's randomness in one step, after ``done`` new tokens."""
    return (request + done) % 2**64


class Greedy:
    """Takes the likeliest token; the same for all requests."""

    def probabilities(self, logits: Tensor) -> Tensor:
        """The target's distribution [vocabulary] at temperature 1 (float64, CPU)."""
        return logits.detach().to("cpu", torch.float64).softmax(-1)

    def token(self, logits: Tensor, place: int) -> int:
        """The likeliest token after ``logits`` [vocabulary]."""
        return int(logits.argmax())


GREEDY = Greedy()


class Sampler:
    """Draws the tokens of one request at a temperature above 0."""

    def __init__(self, options: DecodeOptions, seed: int) -> None:
        self._options = options
        self._seed = seed

    def accept(self, tree: TokenTree, logits: Tensor, done: int) -> tuple[list[int], int]:
        """Accepted nodes in order, and the token that the target chose after the last of them.

        ``logits`` [1 + nodes, vocabulary] after the root and each node; ``done``: new tokens so far, root included.
        Children that the draft drew are tried one after the other against the residual of the target's distribution
        (Leviathan et al. 2023 for chains; Miao et al. 2023, SpecInfer, for siblings without replacement).
        """
        path: list[int] = []
        node = ROOT
        while True:
            p = self.probabilities(logits[node + 1])
            children = tree.children.get(node, ())
            drawn = tree.drawn_from.get(node)
            token, child = 0, None
            if drawn is not None and children:
                child, p = self._try(p, drawn, [(c, tree.tokens[c]) for c in children])
            if child is None:
                token = self._draw(p, done + len(path))
            if drawn is None:
                child = next((c for c in children if tree.tokens[c] == token), None)
            if child is None:
                return path, token
            path.append(child)
            node = child

    def first(self, logits: Tensor) -> int:
        """The token after the prompt; ``logits`` [vocabulary]."""
        return self.accept(TokenTree(), logits[None], 0)[1]

    def probabilities(self, logits: Tensor) -> Tensor:
        """The target's distribution [vocabulary] after temperature, top-k and top-p (float64, CPU)."""
        scores = logits.detach().to("cpu", torch.float64)[None]
        # The warpers do not look at the tokens so far.
        no_tokens: Any = torch.zeros(1, 1, dtype=torch.long)
        warped = self._warpers(no_tokens, scores)
        return warped[0].softmax(-1)

    def token(self, logits: Tensor, place: int) -> int:
        """The target's own choice after ``logits`` [vocabulary]; ``place``: new tokens of the answer before it."""
        return self._draw(self.probabilities(logits), place)

    def _draw(self, p: Tensor, place: int) -> int:
        """The first to arrive of exponential clocks that tick at the tokens' probabilities.

        Unlike a walk along cumulated probabilities, this does not turn rounding in one token's probability into
        another choice of token.
        """
        clocks = np.random.default_rng((self._seed, _TEXT, place)).standard_exponential(len(p))
        return int((p / torch.from_numpy(clocks)).argmax())

    def _try(
        self, p: Tensor, drawn: Tensor, children: Sequence[tuple[int, int]]
    ) -> tuple[int | None, Tensor]:
        """Try (node, token) siblings in draw order: the accepted node, or None and what remains of the target's."""
        q = drawn.detach().to("cpu", torch.float64, copy=True)
        for child, token in children:
            q /= q.sum()
            if not q[token] > 0:
                raise ValueError(
                    f"token {token} cannot have been drawn: its probability is {float(q[token])}"
                )
            if self._tests.random() * q[token] < p[token]:
                return child, p
            rest = (p - q).clamp_(min=0)
            if not rest.sum() > 0:
                # Equal distributions: the rejection was a matter of rounding, and the target's own is as good.
                return None, p
            p = rest / rest.sum()
            q[token] = 0
        return None, p

    @cached_property
    def _warpers(self) -> LogitsProcessorList:
        o = self._options
        warpers = LogitsProcessorList([TemperatureLogitsWarper(float(o.temperature))])
        if o.top_k:
            warpers.append(TopKLogitsWarper(o.top_k))
        if o.top_p < 1:
            warpers.append(TopPLogitsWarper(o.top_p))
        return warpers

    @cached_property
    def _tests(self) -> np.random.Generator:
        return np.random.default_rng((self._seed, _TESTS))
