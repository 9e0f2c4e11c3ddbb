from __future__ import annotations

import random

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.skipset import SkipSet

SKIPS = [SkipSet.of(s) for s in ([], [0], [0, 1, 3], [1, 2, 3, 4, 5], [2, 4], [5])]


def random_skips(seed: int, count: int) -> list[SkipSet]:
    rng = random.Random(seed)
    drawn = {SkipSet.of(rng.sample(range(6), rng.randrange(6))) for _ in range(count)}
    return sorted(drawn | {SkipSet.of([0])})


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3"])
def test_equals_hugging_face_without_the_blocks(
    family, tiny_model, tiny_target, without_blocks, hugging_face_greedy, make_rule, repeating_prompts
):
    skips = random_skips(len(family), 4)
    texts = decode(tiny_target(family), skips, repeating_prompts, None, make_rule(20), DecodeOptions(20))
    assert len({answer.token_ids for row in texts for answer in row}) > len(skips)
    for skip, row in zip(skips, texts, strict=True):
        pruned = without_blocks(tiny_model(family), skip)
        for prompt, answer in zip(repeating_prompts, row, strict=True):
            assert list(answer.token_ids) == hugging_face_greedy(pruned, prompt, 20)
            assert answer.finish == "length"


@pytest.mark.parametrize("policy", ["sparse", "dense"])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_rows_do_not_depend_on_their_company(family, policy, tiny_target, make_rule, repeating_prompts):
    target = tiny_target(family)
    free = decode(target, SKIPS, repeating_prompts, None, make_rule(16), DecodeOptions(16, prefill=policy))
    end = free[0][2].token_ids[7]
    other = next(answer.token_ids for row in free for answer in row if end not in answer.token_ids)
    rule = make_rule(16, end=[end], stop=[" ".join(map(str, other[4:7]))])
    together = decode(target, SKIPS, repeating_prompts, None, rule, DecodeOptions(16, prefill=policy))
    assert {answer.finish for row in together for answer in row} >= {"eos", "stop"}
    for skip, row in zip(SKIPS, together, strict=True):
        for prompt, answer in zip(repeating_prompts, row, strict=True):
            assert decode(target, [skip], [prompt], None, rule, DecodeOptions(16, prefill=policy)) == [
                [answer]
            ]


def test_answers_end_at_the_token_that_ends_them(tiny_target, make_rule, repeating_prompts):
    target = tiny_target("qwen3")
    free = decode(target, SKIPS, repeating_prompts, None, make_rule(20), DecodeOptions(20))
    end = free[0][0].token_ids[4]
    for c, row in enumerate(
        decode(target, SKIPS, repeating_prompts, None, make_rule(20, end=[end]), DecodeOptions(20))
    ):
        for p, answer in enumerate(row):
            full = free[c][p].token_ids
            count = full.index(end) + 1 if end in full else 20
            assert answer.token_ids == full[:count]
            assert answer.finish == ("eos" if end in full else "length")


def test_row_that_has_ended_leaves_the_forwards(tiny_target, make_rule):
    steps = []
    target = tiny_target("llama", hook=lambda progress: steps.append((progress.kind, progress.rows)))
    prompts = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    free = decode(target, [SkipSet()], prompts, None, make_rule(9), DecodeOptions(9))[0]
    steps.clear()
    end = {answer.token_ids[place] for answer, place in zip(free[:2], (0, 3), strict=True)}
    answers = decode(target, [SkipSet()], prompts, None, make_rule(9, end=end), DecodeOptions(9))[0]
    lengths = [len(answer.token_ids) for answer in answers]
    assert steps == [
        ("prefill", 3),
        *(("step", sum(length > taken for length in lengths)) for taken in range(1, max(lengths))),
    ]
    assert lengths[0] == 1


def test_answer_of_one_token_takes_no_step(tiny_target, make_rule, repeating_prompts):
    kinds = []
    target = tiny_target("llama", hook=lambda progress: kinds.append(progress.kind))
    texts = decode(target, SKIPS, repeating_prompts, None, make_rule(1), DecodeOptions(1))
    assert set(kinds) == {"prefill"}
    assert all(len(answer.token_ids) == 1 and answer.finish == "length" for row in texts for answer in row)


def test_each_configuration_may_have_its_own_prompts(tiny_target, make_rule):
    target, rule = tiny_target("mistral"), make_rule(10)
    rng = random.Random(7)
    prompts = [[[rng.randrange(97) for _ in range(rng.randrange(1, 20))] for _ in range(2)] for _ in SKIPS]
    texts = decode(target, SKIPS, prompts, None, rule, DecodeOptions(10))
    for skip, own, row in zip(SKIPS, prompts, texts, strict=True):
        for prompt, answer in zip(own, row, strict=True):
            assert decode(target, [skip], [prompt], None, rule, DecodeOptions(10)) == [[answer]]
