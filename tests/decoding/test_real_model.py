from __future__ import annotations

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.registry import make_draft
from skipmap.skipset import SkipSet
from skipmap.target.loading import end_tokens, load_model, load_tokenizer, resolve_target
from skipmap.target.model import TargetModel


@pytest.mark.model
def test_real_model_writes_the_same_with_and_without_drafts(
    smollm2_dir, user_settings, copy_model, without_blocks, hugging_face_greedy, make_rule
):
    resolved = resolve_target("smollm2-135m-instruct", settings=user_settings)
    model = load_model(resolved, dtype="float32", device="cpu")
    tokenizer = load_tokenizer(resolved)
    target = TargetModel(copy_model(model))
    texts = ["Once upon a time there was a fox. The fox said:", "one two three one two three one two"]
    prompts = [tokenizer(text).input_ids for text in texts]
    skips = [SkipSet.of([0]), SkipSet.of([9, 17])]
    rule, options = make_rule(12, end=end_tokens(model, tokenizer)), DecodeOptions(max_new_tokens=12)
    plain = decode(target, skips, prompts, None, rule, DecodeOptions(12))
    accepted = 0
    for skip, row in zip(skips, plain, strict=True):
        pruned = without_blocks(model, skip)
        for prompt, answer in zip(prompts, row, strict=True):
            assert list(answer.token_ids) == hugging_face_greedy(pruned, prompt, 12)
            for name in ("prompt_lookup", "sam"):
                found = generate(target, prompt, skip, make_draft(name), rule, options)
                assert found.token_ids == answer.token_ids
                accepted += sum(found.counts.accepted)
    assert accepted > 0
