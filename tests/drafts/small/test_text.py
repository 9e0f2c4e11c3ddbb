"""What the target writes with small models' drafts: its own text, or text distributed as its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import Sampler
from skipmap.decoding.speculative import decode, generate
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from tests.spread import spread

LIMIT = 20


def drafts(a: str, b: str) -> dict[str, tuple[str, dict]]:
    """Methods with parameters, by a name for each; ``a`` and ``b`` are small models."""
    return {
        "draft_model": ("draft_model", {"model": a}),
        "heuristic": ("draft_model", {"model": a, "schedule": "heuristic", "num_tokens": 2}),
        "confidence": ("draft_model", {"model": a, "schedule": "confidence", "confidence": 0.3}),
        "specinfer": ("specinfer", {"models": a, "widths": "2,1,2"}),
        "two models": ("specinfer", {"models": f"{a},{b}", "widths": "2,2"}),
        "looked up": ("staged", {"model": a, "num_tokens": 5}),
        "staged": ("staged", {"model": a, "num_tokens": 5, "inner": "draft_model", "inner_model": b}),
    }


@pytest.mark.parametrize(
    ("name", "family", "policy"), spread([*drafts("a", "b")], [("llama", "sparse"), ("gemma3", "dense")])
)
def test_text_is_that_of_the_model_without_the_blocks(
    family,
    policy,
    name,
    make,
    small,
    tiny_target,
    tiny_model,
    without_blocks,
    hugging_face_greedy,
    make_rule,
    repeating_prompts,
    random_skips,
):
    target, rule, options = tiny_target(family), make_rule(LIMIT), DecodeOptions(LIMIT, prefill=policy)
    skips = random_skips(10, 1)
    assert sum(0 in skip for skip in skips) >= 2
    method, params = drafts(small(family, "pruned"), small(family, "other"))[name]
    draft = make(method, target, **params)
    found = decode(target, skips, repeating_prompts, draft, rule, options)
    plain = decode(target, skips, repeating_prompts, None, rule, options)
    assert [[a.token_ids for a in row] for row in found] == [[a.token_ids for a in row] for row in plain]
    for c, skip in enumerate(skips):
        prompt = repeating_prompts[c % 3]
        assert found[c][c % 3] == generate(
            target, prompt, skip, make(method, target, **params), rule, options
        )
        if policy == "sparse":
            pruned = without_blocks(tiny_model(family), skip)
            assert found[c][c % 3].token_ids == tuple(hugging_face_greedy(pruned, prompt, LIMIT))


@pytest.mark.thorough
@pytest.mark.parametrize("name", drafts("a", "b"))
def test_text_ends_where_plain_decoding_ends(
    name, make, small, tiny_target, make_rule, repeating_prompts, random_skips
):
    target, options = tiny_target("gemma3"), DecodeOptions(24)
    skips = random_skips(9, 2)
    free = decode(target, skips, repeating_prompts, None, make_rule(24), options)
    stop = " ".join(map(str, free[0][1].token_ids[4:7]))
    rule = make_rule(24, end=[free[1][2].token_ids[9]], stop=[stop])
    plain = [a for row in decode(target, skips, repeating_prompts, None, rule, options) for a in row]
    assert {answer.finish for answer in plain} >= {"eos", "stop"}
    method, params = drafts(small("gemma3", "same"), small("gemma3", "other"))[name]
    draft = make(method, target, **params)
    found = [a for row in decode(target, skips, repeating_prompts, draft, rule, options) for a in row]
    assert [(a.token_ids, a.finish) for a in found] == [(a.token_ids, a.finish) for a in plain]


@pytest.mark.parametrize(
    ("name", "temperature", "family"),
    spread(
        ["draft_model", "specinfer", "two models", "looked up", "staged"],
        [(0.0, "llama"), (1.0, "gemma3"), (0.0, "gemma3"), (1.0, "llama")],
    ),
)
def test_all_tokens_of_an_equal_model_are_accepted(
    family, temperature, name, make, small, tiny_target, make_rule, repeating_prompts
):
    target, rule = tiny_target(family), make_rule(LIMIT)
    method, params = drafts(small(family, "same"), small(family, "same"))[name]
    draft = make(method, target, **params)
    options = DecodeOptions(LIMIT, temperature=temperature)
    (answers,) = decode(target, [SkipSet()], repeating_prompts, draft, rule, options)
    for answer in answers:
        depth = len(params["widths"].split(",")) if "widths" in params else params.get("num_tokens", 5)
        assert list(answer.counts.accepted) == [
            min(depth, LIMIT - 1 - done) for done in range(0, LIMIT - 1, depth + 1)
        ]


VOCABULARY, WINDOW, BLOCKS_LEFT = 6, 3, 2
SKIPS = [SkipSet.of([0, 1, 3]), SkipSet.of([0, 2, 4])]
TAIL = [4, 1, 0, 3, 5]
"""The end of every prompt. Nothing before it is seen through two blocks with a window of 3; the small models do."""


@pytest.fixture(scope="module")
def short_sighted():
    """A target whose rows with different prompts are requests of their own with the same distribution."""
    torch.manual_seed(2)
    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=BLOCKS_LEFT + 3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        sliding_window=WINDOW,
        max_position_embeddings=64,
        initializer_range=0.4,
        eos_token_id=None,
        bos_token_id=None,
    )
    return MistralForCausalLM(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def exact(short_sighted, without_blocks, next_logits):
    """Probabilities of the first three tokens, by Hugging Face's model."""

    def probabilities(skip: SkipSet, options: DecodeOptions) -> dict[tuple[int, ...], float]:
        pruned, warp = without_blocks(short_sighted, skip), Sampler(options, 0).probabilities
        after = {
            text: warp(next_logits(pruned, [*TAIL, *text])[-1])
            for length in range(3)
            for text in product(range(VOCABULARY), repeat=length)
        }
        return {
            (a, b, c): float(after[()][a] * after[a,][b] * after[a, b][c])
            for a, b, c in product(range(VOCABULARY), repeat=3)
        }

    return probabilities


PLAIN = DecodeOptions(5, temperature=1.0)
CUT = DecodeOptions(5, temperature=0.7, top_k=5, top_p=0.9)


@pytest.fixture(scope="module")
def sampled(short_sighted, copy_model, make, save, build, make_rule):
    """Answers [skip set][request] with a draft; ``lie``: whether it claims to draw from even distributions."""
    one, other = (
        save(build(seed, vocab_size=VOCABULARY, initializer_range=0.8, num_hidden_layers=1))
        for seed in (3, 4)
    )
    prompts = [[*head, *TAIL] for head in list(product(range(VOCABULARY), repeat=5))[::12]]

    def run(name: str, options: DecodeOptions, *, lie: bool = False):
        target = TargetModel(copy_model(short_sighted))
        method, params = drafts(one, other)[name]
        draft = make(method, target, VOCABULARY, **params)
        if lie:
            honest, even = draft.propose_all, torch.ones(VOCABULARY)
            draft.propose_all = lambda *given: [
                replace(tree, drawn_from=dict.fromkeys(tree.drawn_from, even)) for tree in honest(*given)
            ]
        return decode(target, SKIPS, prompts, draft, make_rule(5), options)

    return run


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, PLAIN) for name in drafts("a", "b")),
        *((name, CUT) for name in ("confidence", "two models", "staged")),
    ],
)
def test_sampled_text_is_distributed_as_the_targets_own(name, options, sampled, exact, p_value):
    for skip, row in zip(SKIPS, sampled(name, options), strict=True):
        assert p_value((answer.token_ids[:3] for answer in row), exact(skip, options)) > 1e-3
        assert len({answer.counts.accepted[0] for answer in row}) > 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["draft_model", "two models"])
def test_check_finds_a_draft_that_does_not_draw_from_what_it_says(name, sampled, exact, p_value):
    for skip, row in zip(SKIPS, sampled(name, PLAIN, lie=True), strict=True):
        assert p_value((answer.token_ids[:3] for answer in row), exact(skip, PLAIN)) < 1e-6
