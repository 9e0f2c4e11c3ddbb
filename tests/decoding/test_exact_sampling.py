"""Sampled tokens are distributed as the target's own, whatever was drafted and however.

The target is a table: its logits depend on the last token alone, so every probability is known exactly. The same check
is shown to fail for rules with one fault each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pytest
import torch
from torch import Tensor

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import Sampler
from skipmap.tree import ROOT, TokenTree

VOCABULARY, FIRST_ROOT, REQUESTS = 6, 0, 1000
LOGITS = torch.from_numpy(np.random.default_rng(8).normal(0, 1.2, (VOCABULARY, VOCABULARY)))
PLAIN = DecodeOptions(max_new_tokens=8, temperature=1.0)
CUT = replace(PLAIN, temperature=0.7, top_k=4, top_p=0.9)


def target(options: DecodeOptions) -> np.ndarray:
    """Probabilities [last token, next token]."""
    return np.stack([Sampler(options, 0).probabilities(row).numpy() for row in LOGITS])


def drawn(q: np.ndarray, count: int, rng: np.random.Generator) -> list[int]:
    """Tokens drawn one after the other without replacement: the order of arrivals in an exponential race."""
    arrivals = np.full(VOCABULARY, np.inf)
    np.divide(rng.exponential(size=VOCABULARY), q, out=arrivals, where=q > 0)
    return np.argsort(arrivals)[:count].tolist()


@dataclass(frozen=True)
class Draft:
    """A tree with ``levels`` children a node, drawn from ``q`` [last token, next token]; or a fixed tree.

    ``chosen_below``: tokens that are drafted by a rule below each drawn leaf.
    """

    levels: tuple[int, ...] = ()
    q: np.ndarray | None = None
    fixed: TokenTree | None = None
    chosen_below: tuple[int, ...] = ()

    def tree(self, root: int, rng: np.random.Generator) -> TokenTree:
        if self.q is None:
            return self.fixed
        start = self.fixed or TokenTree()
        tokens, parents, drawn_from = list(start.tokens), list(start.parents), {}
        tips = list(range(len(tokens))) or [ROOT]
        for count in self.levels:
            below = []
            for tip in tips:
                q = self.q[root if tip == ROOT else tokens[tip]]
                drawn_from[tip] = torch.from_numpy(q)
                for token in drawn(q, count, rng):
                    below.append(len(tokens))
                    tokens.append(token)
                    parents.append(tip)
            tips = below
        for tip in tips:
            tokens += self.chosen_below
            parents += [tip] * len(self.chosen_below)
        return TokenTree(tuple(tokens), tuple(parents), drawn_from)


#    root -> 1 -> 5, root -> 3 -> 2, 3 -> 0, root -> 4
FIXED = TokenTree((1, 3, 4, 5, 2, 0), (ROOT, ROOT, ROOT, 0, 1, 1))


def drafts(options: DecodeOptions) -> dict[str, Draft]:
    rng = np.random.default_rng(5)
    p = target(options)
    some = rng.dirichlet(np.ones(VOCABULARY), VOCABULARY)
    unlike = target(PLAIN) ** -2.0
    gaps = some * (np.arange(VOCABULARY) != np.arange(VOCABULARY)[:, None]) * (np.arange(VOCABULARY) != 2)
    some, unlike, gaps = (q / q.sum(1, keepdims=True) for q in (some, unlike, gaps))
    return {
        "chosen chain": Draft(fixed=TokenTree.chain([3, 1])),
        "chosen tree": Draft(fixed=FIXED),
        "drawn chain": Draft((1, 1), some),
        "two siblings, q unlike p": Draft((2,), unlike),
        "three siblings": Draft((3,), some),
        "four siblings, q with zeros": Draft((4,), gaps),
        "three siblings, q equal to p": Draft((3,), p),
        "two levels": Draft((2, 2), unlike),
        "chosen below drawn": Draft((2,), unlike, chosen_below=(1, 3)),
        "drawn below chosen": Draft((2,), unlike, fixed=TokenTree((1, 3), (ROOT, ROOT))),
    }


class Rule(Protocol):
    """How the nodes of a request are accepted, as ``Sampler.accept``."""

    def accept(self, tree: TokenTree, logits: Tensor, done: int) -> tuple[list[int], int]: ...


@dataclass(frozen=True)
class ByHand:
    """The rule written down once more, with one fault or none."""

    options: DecodeOptions
    seed: int
    fault: str = ""

    def accept(self, tree: TokenTree, logits: Tensor, done: int) -> tuple[list[int], int]:
        rng = np.random.default_rng((self.seed, done, 8))
        path, node = [], ROOT
        while True:
            raw = logits[node + 1]
            p = Sampler(self.options, 0).probabilities(raw).numpy()
            children = tree.children.get(node, ())
            if node in tree.drawn_from:
                child, p = self._try(p, tree.drawn_from[node].numpy().copy(), children, tree, rng)
            elif self.fault == "chosen ones tried in turn":
                child = next((c for c in children if rng.random() < p[tree.tokens[c]]), None)
            else:
                token = int(rng.choice(VOCABULARY, p=p))
                child = next((c for c in children if tree.tokens[c] == token), None)
                if child is None:
                    return path, token
            if child is None:
                if self.fault == "bonus from unwarped logits":
                    p = raw.softmax(-1).numpy()
                return path, int(rng.choice(VOCABULARY, p=p))
            path.append(child)
            node = child

    def _try(self, p, q, children, tree, rng) -> tuple[int | None, np.ndarray]:
        start = p
        for child in children:
            token = tree.tokens[child]
            if self.fault != "q not renormalised":
                q = q / q.sum()
            accepted = (
                rng.random() < p[token] if self.fault == "q left out" else rng.random() * q[token] < p[token]
            )
            if accepted:
                return child, p
            if self.fault != "no residual":
                p = np.clip(p - q, 0, None)
                p /= p.sum()
            q[token] = 0
        return None, start if self.fault == "bonus without residual" else p


def pairs(rule: Callable[[int], Rule], draft: Draft, requests: int) -> Iterator[tuple[int, int]]:
    """First two tokens of many requests."""
    for seed in range(requests):
        request, rng = rule(seed), np.random.default_rng((seed, 9))
        text: list[int] = [FIRST_ROOT]
        while len(text) < 3:
            tree = draft.tree(text[-1], rng)
            path, bonus = request.accept(tree, LOGITS[[text[-1], *tree.tokens]], len(text))
            text += [*(tree.tokens[node] for node in path), bonus]
        yield text[1], text[2]


@pytest.fixture
def fit(p_value) -> Callable[[Callable[[int], Rule], Draft, DecodeOptions], float]:
    """P-value of the first token, and of the first two, against the target's own probabilities; the smaller one."""

    def measure(
        rule: Callable[[int], Rule], draft: Draft, options: DecodeOptions, requests: int = REQUESTS
    ) -> float:
        found: Sequence[tuple[int, int]] = list(pairs(rule, draft, requests))
        p = target(options)
        first = dict(enumerate(p[FIRST_ROOT].tolist()))
        both = {(a, b): first[a] * float(p[a, b]) for a in first for b in first}
        return min(p_value((a for a, _ in found), first), p_value(found, both))

    return measure


CASES = [
    *((PLAIN, name) for name in drafts(PLAIN)),
    *(
        (CUT, name)
        for name in ("chosen tree", "four siblings, q with zeros", "two levels", "chosen below drawn")
    ),
]


@pytest.mark.parametrize("requests", [REQUESTS, pytest.param(20 * REQUESTS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("options", "draft"), CASES, ids=[f"{o.temperature}-{name}" for o, name in CASES])
def test_tokens_are_distributed_as_the_targets_own(draft, options, requests, fit):
    assert fit(lambda seed: Sampler(options, seed), drafts(options)[draft], options, requests) > 1e-3


FAULTS = {
    "chosen ones tried in turn": ("chosen tree", PLAIN),
    "no residual": ("two siblings, q unlike p", PLAIN),
    "bonus without residual": ("two levels", PLAIN),
    "q not renormalised": ("two siblings, q unlike p", PLAIN),
    "q left out": ("drawn chain", PLAIN),
    "bonus from unwarped logits": ("drawn chain", CUT),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_a_wrong_rule(fault, fit):
    name, options = FAULTS[fault]
    draft = drafts(options)[name]
    assert fit(lambda seed: ByHand(options, seed), draft, options) > 1e-3
    assert fit(lambda seed: ByHand(options, seed, fault), draft, options) < 1e-9


def test_check_finds_a_draft_that_does_not_draw_from_what_it_says(fit):
    honest = drafts(PLAIN)["two siblings, q unlike p"]

    class Liar(Draft):
        def tree(self, root: int, rng: np.random.Generator) -> TokenTree:
            tree = honest.tree(root, rng)
            return TokenTree(tree.tokens, tree.parents, {ROOT: torch.ones(VOCABULARY) / VOCABULARY})

    assert fit(lambda seed: Sampler(PLAIN, seed), Liar(), PLAIN) < 1e-9
