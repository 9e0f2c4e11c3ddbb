from __future__ import annotations

import pytest
import torch

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import request_seed, step_seed
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.base import Needs
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.tree import ROOT, TokenTree


def wrong(token: int) -> int:
    return (token + 1) % 97


def test_prefill_policies_differ(tiny_target, make_rule, repeating_prompts):
    target, skip = tiny_target("llama"), SkipSet.of([0, 2])
    texts = {
        generate(
            target, repeating_prompts[1], skip, None, make_rule(24), DecodeOptions(24, prefill=policy)
        ).token_ids
        for policy in ("sparse", "dense")
    }
    assert len(texts) == 2


def test_draft_is_told_what_happened(story, tell):
    prompt, t = story.prompt, story.text
    tree = TokenTree.chain([t[1], wrong(t[2])])
    [(_, script)] = tell([tree, TokenTree.chain(t[3:9])], limit=6)
    assert [context.tokens for context in script.contexts] == [[*prompt, t[0]], [*prompt, *t[:3]]]
    assert [context.remaining for context in script.contexts] == [5, 3]
    assert [context.temperature for context in script.contexts] == [0.0, 0.0]
    assert [(o.tree, o.accepted, o.emitted, o.root, list(o.prompt)) for o in script.outcomes] == [
        (TokenTree(), (), (t[0],), None, prompt),
        (tree, (0,), (t[1], t[2]), t[0], []),
        (TokenTree.chain(t[3:6]), (0, 1, 2), (t[3], t[4], t[5]), t[2], []),
    ]


def test_draft_sees_what_it_needs(story, make_rule, scripted):
    t = story.text
    draft = scripted(Needs(top_k=3, block_inputs=(0, 2), final_hidden=True))
    script = draft.script([TokenTree((wrong(t[1]), t[1]), (ROOT, ROOT))])
    options = DecodeOptions(max_new_tokens=3)
    generate(story.target, story.prompt, story.skip, draft, make_rule(3), options, script)
    prompt, outcome = script.outcomes
    assert (prompt.top_tokens, prompt.final_hidden, dict(prompt.block_inputs)) == (None, None, {})
    assert outcome.top_tokens.shape == (3, 3)
    assert outcome.top_tokens[0, 0] == t[1]
    assert outcome.top_tokens[2, 0] == t[2]
    assert torch.equal(story.target.logits(outcome.final_hidden).argmax(-1), outcome.top_tokens[:, 0])
    embeddings = story.target.model.get_input_embeddings()(torch.tensor([t[0], wrong(t[1]), t[1]]))
    assert torch.equal(outcome.block_inputs[0], embeddings)
    assert outcome.block_inputs[2].shape == embeddings.shape


def test_draft_sees_nothing_it_does_not_need(story, tell):
    [(_, script)] = tell([TokenTree.chain(story.text[1:3])], limit=5)
    for outcome in script.outcomes:
        assert (outcome.top_tokens, outcome.final_hidden, dict(outcome.block_inputs)) == (None, None, {})


def test_draft_knows_temperature_and_the_requests_seed(story, make_rule, scripted):
    draft = scripted()
    script = draft.script([])
    options = DecodeOptions(max_new_tokens=3, seed=5, temperature=0.5)
    generate(story.target, story.prompt, story.skip, draft, make_rule(3), options, script)
    request = request_seed(5, story.prompt, story.skip)
    # A step of its own each, or a draft would draw the same numbers again and again.
    assert [c.seed for c in script.contexts] == [step_seed(request, done) for done in (1, 2)]
    assert {c.temperature for c in script.contexts} == {0.5}


def test_state_is_made_where_none_is_given(story, make_rule):
    options = DecodeOptions(max_new_tokens=12)
    args = (story.prompt, story.skip, make_draft("sam"), make_rule(12), options)
    assert generate(story.target, *args) == generate(story.target, *args, make_draft("sam").fresh())


def test_timings_of_an_answer_that_is_decoded_alone(story, make_rule):
    options, draft = DecodeOptions(max_new_tokens=6), make_draft("sam")
    alone = generate(story.target, story.prompt, story.skip, draft, make_rule(6), options).timings
    assert min(alone.prefill, alone.draft, alone.verify) > 0
    assert alone.draft + alone.verify <= alone.decode
    assert alone.total == alone.prefill + alone.decode
    batch = decode(story.target, [story.skip], [story.prompt] * 2, draft, make_rule(6), options)
    assert [answer.timings for answer in batch[0]] == [None, None]


def test_wrong_options_are_refused(story, make_rule):
    target, prompt = story.target, story.prompt
    with pytest.raises(InvalidInput, match="4 tokens and 253 new ones pass the target's context of 256"):
        generate(target, prompt, SkipSet(), None, make_rule(253), DecodeOptions(max_new_tokens=253))
    with pytest.raises(InvalidInput, match="5 tokens and 252 new ones"):
        decode(target, [SkipSet()], [prompt, [1, *prompt]], None, make_rule(252), DecodeOptions(252))
    with pytest.raises(InvalidInput, match="has no tokens"):
        generate(target, [], SkipSet(), None, make_rule(), DecodeOptions())


def test_answer_may_fill_the_context(story, make_rule):
    options = DecodeOptions(max_new_tokens=252)
    found = generate(story.target, story.prompt, SkipSet(), make_draft("sam"), make_rule(252), options)
    assert len(found.token_ids) == 252


def test_hook_that_raises_stops_generation(tiny_target, make_rule, repeating_prompts):
    def hook(progress):
        if progress.kind == "step":
            raise InterruptedError("cancel")

    with pytest.raises(InterruptedError, match="cancel"):
        generate(tiny_target(hook=hook), repeating_prompts[0], SkipSet(), None, make_rule(), DecodeOptions())
