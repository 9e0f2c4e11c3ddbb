"""Runs: requests with bounds of their own, followed and cancelled, one run beside another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.request import Request
from skipmap.decoding.speculative import generate, open_run
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet

OPTIONS = [
    DecodeOptions(24),
    DecodeOptions(7),
    DecodeOptions(16, temperature=1.0, seed=3),
    DecodeOptions(1),
    DecodeOptions(20, stop=("11",), temperature=0.7, seed=5, top_k=40, top_p=0.9),
]


def requests_of(prompts: Sequence[list[int]], make_rule, **more) -> list[Request]:
    return [
        Request(
            prompts[i % len(prompts)], make_rule(options.max_new_tokens, stop=options.stop), options, **more
        )
        for i, options in enumerate(OPTIONS)
    ]


@pytest.mark.parametrize("method", [None, "prompt_lookup", "token_recycling"])
@pytest.mark.parametrize("skip", [SkipSet(), SkipSet.of([0, 2])], ids=str)
def test_requests_with_other_bounds_are_answered_as_if_alone(
    tiny_target, make_rule, repeating_prompts, method, skip
):
    target = tiny_target("llama")
    draft = make_draft(method) if method else None
    requests = requests_of(repeating_prompts, make_rule)
    run = open_run(target, skip, requests, draft)
    while run.alive:
        run.step()
    alone = [generate(target, r.prompt, skip, draft, r.stop_rule, r.options) for r in requests]
    assert run.generations() == alone


def test_runs_that_take_turns_do_not_touch_each_other(tiny_target, make_rule, repeating_prompts):
    target, draft = tiny_target("gemma3"), make_draft("prompt_lookup")
    skips = [SkipSet.of([1]), SkipSet(), SkipSet.of([0, 3])]
    requests = requests_of(repeating_prompts, make_rule)
    runs = [open_run(target, skip, requests, draft) for skip in skips]
    while any(run.alive for run in runs):
        for run in runs:
            if run.alive:
                run.step()
    for run, skip in zip(runs, skips, strict=True):
        alone = [generate(target, r.prompt, skip, draft, r.stop_rule, r.options) for r in requests]
        assert run.generations() == alone


def test_a_follower_hears_the_whole_answer_as_it_grows(tiny_target, make_rule, repeating_prompts):
    heard: list[list[int]] = []

    def follow(tokens: Sequence[int]) -> bool:
        heard.append(list(tokens))
        return True

    request = Request(repeating_prompts[0], make_rule(), DecodeOptions(24), follower=follow)
    run = open_run(tiny_target("llama"), SkipSet(), [request], make_draft("prompt_lookup"))
    while run.alive:
        run.step()
    (answer,) = run.generations()
    assert [token for tokens in heard for token in tokens] == list(answer.token_ids)
    assert [len(tokens) for tokens in heard] == [1, *answer.counts.emitted]


@pytest.mark.parametrize("after", [1, 5, 24])
def test_a_follower_that_has_enough_ends_its_answer_alone(tiny_target, make_rule, repeating_prompts, after):
    target = tiny_target("llama")
    heard: list[int] = []

    def follow(tokens: Sequence[int]) -> bool:
        heard.extend(tokens)
        return len(heard) < after

    stops = Request(repeating_prompts[0], make_rule(), DecodeOptions(24), follower=follow)
    goes_on = Request(repeating_prompts[1], make_rule(), DecodeOptions(24))
    run = open_run(target, SkipSet.of([2]), [stops, goes_on], None)
    while run.alive:
        run.step()
    first, second = run.generations()
    # An answer that has reached its end by itself is not called cancelled.
    assert (len(first.token_ids), first.finish) == (after, "length" if after == 24 else "cancelled")
    assert second == generate(
        target, goes_on.prompt, SkipSet.of([2]), None, goes_on.stop_rule, goes_on.options
    )


def test_a_request_that_does_not_fit_the_context_is_refused(tiny_target, make_rule):
    target = tiny_target("llama")
    request = Request([1] * 10, make_rule(), DecodeOptions(target.context_length))
    with pytest.raises(InvalidInput, match="pass the target's context"):
        open_run(target, SkipSet(), [request], None)


def test_rows_of_one_run_have_one_prefill_policy(tiny_target, make_rule):
    requests = [Request([1, 2], make_rule(4), DecodeOptions(4, prefill=p)) for p in ("sparse", "dense")]
    with pytest.raises(ValueError, match="prefill policy"):
        open_run(tiny_target("llama"), SkipSet(), requests, None)
