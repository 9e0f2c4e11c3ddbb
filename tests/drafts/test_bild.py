from __future__ import annotations

from math import log

import pytest
import torch

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import GREEDY, Sampler
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.bild import Rollback
from skipmap.skipset import SkipSet
from skipmap.tree import TokenTree
from tests.decoding.conftest import make_rule, repeating_prompts
from tests.drafts.small.conftest import build, make, next_logits, numbers, save, small, small_model

__all__ = [
    "build",
    "make",
    "make_rule",
    "next_logits",
    "numbers",
    "repeating_prompts",
    "save",
    "small",
    "small_model",
]

P = [[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.01, 0.01, 0.98], [0.2, 0.6, 0.2]]
"""The target's probabilities after the root and after each token of a chain of three."""
LOGITS = torch.tensor(P).log()


@pytest.mark.parametrize(
    ("tokens", "threshold", "path", "bonus"),
    [
        # -log 0.3 = 1.20, -log 0.05 = 3.00, -log 0.01 = 4.61.
        ([1, 0, 1], 1.1, [], 0),
        ([1, 0, 1], 1.3, [0], 1),
        ([1, 0, 1], 2.9, [0], 1),
        ([1, 0, 1], 3.1, [0, 1], 2),
        ([1, 0, 1], 4.7, [0, 1, 2], 1),
        ([0, 1, 2], 0.7, [0, 1, 2], 1),
        ([0, 1, 2], 0.6, [], 0),
        ([], 9.0, [], 0),
    ],
)
def test_tokens_are_taken_back_from_the_first_unlikely_one_on(tokens, threshold, path, bonus):
    rule = Rollback(threshold)
    tree = TokenTree.chain(tokens)
    assert rule.accept(tree, LOGITS[: 1 + len(tokens)], GREEDY, 1) == (path, bonus)


def test_what_sampling_cuts_off_is_taken_back():
    sampler = Sampler(DecodeOptions(9, temperature=1.0, top_k=1), 0)
    assert Rollback(100.0).accept(TokenTree.chain([1]), LOGITS[:2], sampler, 1) == ([], 0)
    assert Rollback(100.0).accept(TokenTree.chain([0]), LOGITS[:2], sampler, 1) == ([0], 1)


def test_the_targets_own_token_is_chosen_for_its_place():
    sampler = Sampler(DecodeOptions(9, temperature=1.0), 3)
    for done in range(1, 20):
        path, bonus = Rollback(3.1).accept(TokenTree.chain([1, 0, 1]), LOGITS, sampler, done)
        assert path == [0, 1]
        assert bonus == sampler.token(LOGITS[2], done + 2)


def by_hand(target, small, next_logits, prompt, limit, fallback, rollback, most):
    """BiLD without a cache or a batch: the new tokens, and how many the small model wrote in each step."""
    text = [*prompt, int(next_logits(target, prompt)[-1].argmax())]
    written = []
    while len(text) < len(prompt) + limit:
        start = len(text)
        while len(text) < start + min(most, limit + len(prompt) - start):
            p = next_logits(small, text)[-1].softmax(-1)
            if float(p.max()) < fallback:
                break
            text.append(int(p.argmax()))
        p = next_logits(target, text).softmax(-1)
        wrong = [i for i in range(start, len(text)) if -log(float(p[i - 1, text[i]])) > rollback]
        if wrong:
            del text[wrong[0] :]
        written.append(len(text) - start)
        text.append(int(p[len(text) - 1].argmax()))
    return tuple(text[len(prompt) : len(prompt) + limit]), written


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize(("fallback", "rollback"), [(0.3, 2.0), (0.0, 5.0), (0.5, 0.0), (0.2, 1.0)])
def test_the_text_is_that_of_both_models(
    family,
    fallback,
    rollback,
    make,
    small,
    small_model,
    tiny_model,
    tiny_target,
    without_blocks,
    make_rule,
    repeating_prompts,
    next_logits,
):
    target, rule, options = tiny_target(family), make_rule(20), DecodeOptions(20)
    skips = [SkipSet((0, 2)), SkipSet((2,))]
    draft = make(
        "bild",
        target,
        model=small(family, "pruned"),
        fallback_threshold=fallback,
        rollback_threshold=rollback,
        max_tokens=4,
    )
    assert draft.lossy
    found = decode(target, skips, repeating_prompts, draft, rule, options)
    plain = decode(target, skips, repeating_prompts, None, rule, options)
    for skip, answers in zip(skips, found, strict=True):
        for prompt, answer in zip(repeating_prompts, answers, strict=True):
            text, written = by_hand(
                without_blocks(tiny_model(family), skip),
                small_model(family, "pruned"),
                next_logits,
                prompt,
                20,
                fallback,
                rollback,
                4,
            )
            assert answer.token_ids == text
            assert list(answer.counts.accepted) == written
    assert found[0][1] == generate(target, repeating_prompts[1], skips[0], draft, rule, options)
    texts = [[a.token_ids for a in row] for row in found]
    same = texts == [[a.token_ids for a in row] for row in plain]
    # Nothing but what the target is certain of passes a threshold of 0, almost everything one of 5.
    assert same or rollback > 0
    assert not same or rollback < 5
