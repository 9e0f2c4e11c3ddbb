"""Every draft writes what the model without the skipped blocks writes, alone and in a batch of mixed skip sets."""

from __future__ import annotations

from functools import cache

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.registry import draft_names
from skipmap.skipset import SkipSet
from tests.ready_drafts import LOSSY, ready_draft
from tests.spread import spread

LIMIT = 20
FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
EXACT = sorted({*draft_names()} - LOSSY)


@pytest.fixture(scope="module")
def expected(tiny_model, without_blocks, hugging_face_greedy, repeating_prompts):
    """Answers of Hugging Face's model, by family."""

    @cache
    def texts(family: str, skip: SkipSet) -> list[tuple[int, ...]]:
        pruned = without_blocks(tiny_model(family), skip)
        return [tuple(hugging_face_greedy(pruned, prompt, LIMIT)) for prompt in repeating_prompts]

    return texts


@pytest.mark.parametrize(("name", "family"), spread(EXACT, FAMILIES, times=2))
def test_text_is_that_of_the_model_without_the_blocks(
    family, name, tiny_target, make_rule, repeating_prompts, random_skips, expected
):
    target, rule, options = tiny_target(family), make_rule(LIMIT), DecodeOptions(LIMIT)
    # Skip sets under which no answer hangs on rounding: the two likeliest tokens always lie 7e-4 apart or more.
    skips = random_skips(10 + FAMILIES.index(family), 1)
    assert sum(0 in skip for skip in skips) >= 2
    together = decode(target, skips, repeating_prompts, ready_draft(name, target), rule, options)
    accepted = 0
    for skip, answers in zip(skips, together, strict=True):
        assert [answer.token_ids for answer in answers] == expected(family, skip)
        for prompt, answer in zip(repeating_prompts, answers, strict=True):
            assert answer == generate(target, prompt, skip, ready_draft(name, target), rule, options)
            assert sum(answer.counts.emitted) == LIMIT - 1
            assert answer.blocks_run == (6 - len(skip),) * answer.counts.steps
            accepted += sum(answer.counts.accepted)
    assert accepted > 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "family", "policy"), spread(EXACT, [("llama", "sparse"), ("gemma3", "dense")])
)
def test_text_ends_where_plain_decoding_ends(
    family, policy, name, tiny_target, make_rule, repeating_prompts, random_skips
):
    target, options = tiny_target(family), DecodeOptions(24, prefill=policy)
    skips = random_skips(9, 3)
    free = decode(target, skips, repeating_prompts, None, make_rule(24), options)
    stop = " ".join(map(str, free[0][1].token_ids[4:7]))
    rule = make_rule(24, end=[free[1][2].token_ids[9]], stop=[stop])
    plain = [a for row in decode(target, skips, repeating_prompts, None, rule, options) for a in row]
    assert {answer.finish for answer in plain} >= {"eos", "stop"}
    found = [
        a
        for row in decode(target, skips, repeating_prompts, ready_draft(name, target), rule, options)
        for a in row
    ]
    assert [(a.token_ids, a.finish, a.text) for a in found] == [
        (a.token_ids, a.finish, a.text) for a in plain
    ]
    pairs = [(skip, prompt) for skip in skips for prompt in repeating_prompts]
    for (skip, prompt), answer in list(zip(pairs, found, strict=True))[::4]:
        assert answer == generate(target, prompt, skip, ready_draft(name, target), rule, options)
