"""Rows of a batch that accept different numbers of tokens and end at different times are decoded as if alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from skipmap.decoding import run
from skipmap.decoding.counts import StepCounts
from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.drafts.base import Needs
from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch
from skipmap.target.model import prompt_table
from skipmap.tree import ROOT, TokenTree, accept_text

LIMIT = 20
SKIPS = [SkipSet.of(s) for s in ([], [0], [0, 2], [1, 2, 3, 4, 5])]


def random_trees(rng: random.Random, text: Sequence[int]) -> list[TokenTree]:
    """Trees that hide the right continuation of some length among wrong branches, for steps through ``text``."""
    trees, at = [], 0
    while at < len(text) - 1:
        parents, tokens, tip = [], [], ROOT
        right = text[at + 1 : at + 1 + rng.randrange(5)]
        for token in right:
            for _ in range(rng.randrange(3)):
                parents.append(rng.randrange(ROOT, len(tokens)))
                tokens.append(rng.randrange(97))
            parents.append(tip)
            tokens.append(token)
            tip = len(tokens) - 1
        trees.append(TokenTree(tuple(tokens), tuple(parents)))
        at += len(right) + 1
    return trees


def counts_over(text: Sequence[int], trees: Sequence[TokenTree]) -> StepCounts:
    """What the steps through a known text come to."""
    counts, done = StepCounts(), 1
    for tree in [*trees, *[TokenTree()] * len(text)]:
        if done == len(text):
            return counts
        cut = tree.truncate(LIMIT - done)
        path = accept_text(cut, text[done:])
        emitted = min(len(path) + 1, len(text) - done)
        counts.add(emitted, len(path), cut)
        done += emitted
    raise AssertionError("more steps than tokens")


def words(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(97) for _ in range(length)]


def prompts_of(layout: str) -> list:
    rng = random.Random(layout)
    if layout == "own prompts":
        return [[words(rng, rng.randrange(1, 14)) for _ in range(3)] for _ in SKIPS]
    common = words(rng, 18 if layout == "common prefix" else 0)
    return [[*common, *words(rng, length)] for length in (3, 12, 7)]


@pytest.fixture
def takes(monkeypatch) -> list[tuple[int, int]]:
    """Rows before and after each copy of a batch."""
    seen = []
    take = Batch.take

    def watched(self: Batch, rows: Sequence[int]) -> Batch:
        seen.append((self.rows, len(rows)))
        return take(self, rows)

    monkeypatch.setattr(Batch, "take", watched)
    return seen


@pytest.mark.parametrize("layout", ["shared prompts", "common prefix", "own prompts", "dense prefill"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_rows_end_at_different_times(family, layout, tiny_target, make_rule, scripted, takes, monkeypatch):
    target, draft, prompts = tiny_target(family), scripted(), prompts_of(layout)
    options = DecodeOptions(LIMIT, prefill="dense" if layout == "dense prefill" else "sparse")
    free = decode(target, SKIPS, prompts, None, make_rule(LIMIT), options)
    end = free[0][2].token_ids[7]
    other = next(a.token_ids for row in free for a in row if end not in a.token_ids)
    rule = make_rule(LIMIT, end=[end], stop=[" ".join(map(str, other[4:7]))])
    table, shared = prompt_table(prompts)
    alone = [
        decode(target, [skip], [prompt], None, rule, options)[0][0]
        for c, skip in enumerate(SKIPS)
        for prompt in table[0 if shared else c]
    ]
    rng = random.Random(f"{family}{layout}")
    trees = [random_trees(rng, answer.token_ids) for answer in alone]
    seen = []
    for share in (run.SPARSE_BATCH, 0.0, 1.0):
        monkeypatch.setattr(run, "SPARSE_BATCH", share)
        takes.clear()
        found = decode(target, SKIPS, prompts, draft, rule, options, [draft.script(t) for t in trees])
        seen.append(list(takes))
        rows = [answer for row in found for answer in row]
        assert [(a.token_ids, a.finish) for a in rows] == [(a.token_ids, a.finish) for a in alone]
        assert [a.counts for a in rows] == [
            counts_over(a.token_ids, t) for a, t in zip(alone, trees, strict=True)
        ]
        assert [set(a.blocks_run) for a in found[2]] == [
            {4} if len(a.token_ids) > 1 else set() for a in found[2]
        ]
    # The comparison is worth something only when all of this came up.
    assert {answer.finish for answer in alone} == {"eos", "stop", "length"}
    by_default, never, always = seen
    assert by_default
    assert never == []
    assert max(after for _, after in always) > 1


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3"])
def test_ragged_acceptance(family, tiny_target, make_rule, repeating_prompts, random_skips, scripted):
    target, draft, rule, options = tiny_target(family), scripted(), make_rule(LIMIT), DecodeOptions(LIMIT)
    skips = random_skips(len(family), 3)
    plain = [a for row in decode(target, skips, repeating_prompts, None, rule, options) for a in row]
    rng = random.Random(family)
    trees = [random_trees(rng, answer.token_ids) for answer in plain]
    scripts = [draft.script(t) for t in trees]
    found = [
        a for row in decode(target, skips, repeating_prompts, draft, rule, options, scripts) for a in row
    ]
    assert [answer.token_ids for answer in found] == [answer.token_ids for answer in plain]
    assert [answer.counts for answer in found] == [
        counts_over(answer.token_ids, t) for answer, t in zip(plain, trees, strict=True)
    ]
    first = {(answer.counts.accepted[0], answer.counts.scored[0]) for answer in found}
    assert len(first) > 3


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("policy", ["sparse", "dense"])
def test_draft_is_shown_the_same_as_alone(
    family, policy, tiny_target, make_rule, repeating_prompts, scripted, takes
):
    target = tiny_target(family)
    draft = scripted(Needs(top_k=5, block_inputs=(0, 2, 5), final_hidden=True, prompt=True))
    options, rule = DecodeOptions(LIMIT, prefill=policy), make_rule(LIMIT)
    texts = [
        a.token_ids for row in decode(target, SKIPS, repeating_prompts, None, rule, options) for a in row
    ]
    end = texts[4][9]
    rule = make_rule(LIMIT, end=[end])
    rng = random.Random(policy)
    trees = [random_trees(rng, text) for text in texts]
    together = [draft.script(t) for t in trees]
    decode(target, SKIPS, repeating_prompts, draft, rule, options, together)
    assert takes
    pairs = [(skip, prompt) for skip in SKIPS for prompt in repeating_prompts]
    for (skip, prompt), t, script in zip(pairs, trees, together, strict=True):
        alone = draft.script(t)
        decode(target, [skip], [prompt], draft, rule, options, [alone])
        assert script.contexts == alone.contexts
        assert script.outcomes[0].top_tokens.shape == (len(prompt), 5)
        for one, other in zip(script.outcomes, alone.outcomes, strict=True):
            assert (one.tree, one.accepted, one.emitted) == (other.tree, other.accepted, other.emitted)
            assert (one.root, one.prompt) == (other.root, other.prompt)
            assert torch.equal(one.top_tokens, other.top_tokens)
            torch.testing.assert_close(one.final_hidden, other.final_hidden, atol=1e-3, rtol=1e-3)
            assert set(one.block_inputs) == {0, 2, 5}
            for block in one.block_inputs:
                torch.testing.assert_close(
                    one.block_inputs[block], other.block_inputs[block], atol=1e-3, rtol=1e-3
                )
