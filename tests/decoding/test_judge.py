from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from skipmap.decoding import judge as module
from skipmap.decoding.judge import Verdict, judge, top_tokens
from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import Sampler
from skipmap.target.model import TargetModel
from skipmap.tree import ROOT, TokenTree, accept_greedy

WIDTH, VOCABULARY = 32, 97


@dataclass(frozen=True)
class Step:
    """Rows of one step: hidden states of all their positions, one tree each, new tokens so far."""

    target: TargetModel
    hidden: Tensor
    trees: list[TokenTree]
    done: list[int]

    def parts(self) -> Sequence[Tensor]:
        return self.hidden.split([1 + len(tree) for tree in self.trees])

    def verdicts(self, temperature: float, top_k: int = 4) -> list[Verdict]:
        return judge(self.target, self.hidden, self.trees, self.samplers(temperature), self.done, top_k)

    def samplers(self, temperature: float) -> list[Sampler | None]:
        if temperature == 0:
            return [None] * len(self.trees)
        options = DecodeOptions(max_new_tokens=20, temperature=temperature)
        return [Sampler(options, seed) for seed in range(len(self.trees))]


@pytest.fixture(scope="module")
def step(tiny_target) -> Step:
    """Trees of 0 to 6 nodes in which the target likes most of the tokens."""
    rng = random.Random(3)
    target = tiny_target("llama")
    sizes = [3, 0, 6, 1, 5, 0, 0, 4, 2]
    hidden = torch.randn(sum(sizes) + len(sizes), WIDTH, generator=torch.Generator().manual_seed(3))
    best = target.logits(hidden).argmax(-1).tolist()
    trees, first = [], 0
    for size in sizes:
        parents = [rng.randrange(ROOT, node) for node in range(size)]
        tokens = [
            best[first + 1 + parent] if rng.random() < 0.7 else rng.randrange(VOCABULARY)
            for parent in parents
        ]
        trees.append(TokenTree(tuple(tokens), tuple(parents)))
        first += 1 + size
    return Step(target, hidden, trees, [rng.randrange(1, 10) for _ in sizes])


def plain(verdicts: Sequence[Verdict]) -> list[tuple[list[int], int, list[list[int]]]]:
    return [(v.path, v.bonus, v.top_tokens.tolist()) for v in verdicts]


def test_greedy_verdicts_follow_each_rows_own_logits(step):
    found = step.verdicts(0.0)
    for verdict, tree, hidden in zip(found, step.trees, step.parts(), strict=True):
        logits = step.target.logits(hidden)
        assert (verdict.path, verdict.bonus) == accept_greedy(tree, logits.argmax(-1).tolist())
        assert torch.equal(verdict.top_tokens, logits.topk(4).indices)
    assert {len(verdict.path) for verdict in found} >= {0, 1, 2}


def test_sampled_verdicts_follow_each_rows_own_logits_and_sampler(step):
    found = step.verdicts(1.0)
    own = zip(found, step.samplers(1.0), step.trees, step.parts(), step.done, strict=True)
    for verdict, sampler, tree, hidden, done in own:
        assert (verdict.path, verdict.bonus) == sampler.accept(tree, step.target.logits(hidden), done)
    assert {verdict.bonus for verdict in found} != {verdict.bonus for verdict in step.verdicts(0.0)}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_verdicts_do_not_depend_on_positions_at_once(step, temperature, monkeypatch):
    expected = plain(step.verdicts(temperature))
    for bound in (1, 3, 7, 8, 1000):
        monkeypatch.setattr(module, "POSITIONS_AT_ONCE", {"cpu": bound})
        assert plain(step.verdicts(temperature)) == expected


@pytest.mark.parametrize("bound", [1, 3, 7, 8, 1000])
def test_logits_are_made_for_whole_rows_within_the_bound(step, bound, monkeypatch):
    seen = []
    logits = step.target.logits
    monkeypatch.setattr(module, "POSITIONS_AT_ONCE", {"cpu": bound})
    monkeypatch.setattr(step.target, "logits", lambda hidden: seen.append(len(hidden)) or logits(hidden))
    step.verdicts(0.0)
    sizes = [1 + len(tree) for tree in step.trees]
    expected, total = [], 0
    for size in sizes:
        if total and total + size > bound:
            expected.append(total)
            total = 0
        total += size
    assert seen == [*expected, total]


def test_no_top_tokens_unless_asked_for(step):
    assert {verdict.top_tokens for verdict in step.verdicts(0.0, top_k=0)} == {None}


@pytest.mark.parametrize("bound", [1, 3, 7, 1000])
def test_top_tokens_of_a_prompt(step, bound, monkeypatch):
    monkeypatch.setattr(module, "POSITIONS_AT_ONCE", {"cpu": bound})
    found = top_tokens(step.target, step.hidden, 5)
    scores = step.target.logits(step.hidden)
    assert found.tolist() == [sorted(range(VOCABULARY), key=lambda t: -row[t])[:5] for row in scores.tolist()]
