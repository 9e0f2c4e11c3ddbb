"""Drafts with a head leave the text as it is, whatever the head has learnt, and help where it has learnt something."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.request import Request
from skipmap.decoding.run import Run
from skipmap.decoding.sampling import Sampler
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.base import Resources
from skipmap.drafts.heads.config import Eagle3Config, EagleConfig
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.eagle3 import Eagle3Head
from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.drafts.heads.saving import save_eagle, save_medusa
from skipmap.drafts.registry import make_draft
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from tests.spread import spread

METHODS = ["eagle", "eagle2", "eagle3", "medusa", "samd"]
LIMIT = 16


@pytest.fixture(scope="module")
def expected(tiny_model, without_blocks, hugging_face_greedy, repeating_prompts):
    """Answers of Hugging Face's model, by family."""

    @cache
    def texts(family: str, skip: SkipSet) -> list[tuple[int, ...]]:
        pruned = without_blocks(tiny_model(family), skip)
        return [tuple(hugging_face_greedy(pruned, prompt, LIMIT)) for prompt in repeating_prompts]

    return texts


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "family"), spread([*METHODS], ["llama", "qwen2", "gemma3"]))
def test_text_is_that_of_the_model_without_the_blocks(
    family, name, tiny_target, make, make_rule, repeating_prompts, random_skips, expected
):
    target, rule, options = tiny_target(family), make_rule(LIMIT), DecodeOptions(LIMIT)
    skips = random_skips({"llama": 10, "qwen2": 11, "gemma3": 14}[family], 1)
    assert sum(0 in skip for skip in skips) >= 2
    together = decode(target, skips, repeating_prompts, make(name, target), rule, options)
    for skip, answers in zip(skips, together, strict=True):
        assert [answer.token_ids for answer in answers] == expected(family, skip)
        for prompt, answer in zip(repeating_prompts, answers, strict=True):
            assert answer == generate(target, prompt, skip, make(name, target), rule, options)


SETTINGS = [
    ("llama", DecodeOptions(LIMIT, temperature=1.0, seed=1)),
    ("gemma3", DecodeOptions(LIMIT, temperature=0.8, top_p=0.9, prefill="dense")),
    ("mistral", DecodeOptions(LIMIT, prefill="dense")),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "family", "options"), spread([*METHODS], SETTINGS))
def test_tokens_chosen_by_a_rule_do_not_change_the_text(
    family, options, name, tiny_target, make, make_rule, repeating_prompts, random_skips
):
    target, rule = tiny_target(family), make_rule(LIMIT)
    skips = random_skips(len(family), 2)
    more = {"children": "likeliest"} if name == "eagle" else {}
    plain = decode(target, skips, repeating_prompts, None, rule, options)
    found = decode(target, skips, repeating_prompts, make(name, target, **more), rule, options)
    assert [[a.token_ids for a in row] for row in found] == [[a.token_ids for a in row] for row in plain]
    for place, (skip, row) in enumerate(zip(skips, found, strict=True)):
        alone = generate(
            target, repeating_prompts[place % 3], skip, make(name, target, **more), rule, options
        )
        assert row[place % 3] == alone


def test_drawn_text_does_not_depend_on_the_batch(
    tiny_target, make, make_rule, repeating_prompts, random_skips
):
    target, rule, options = tiny_target("llama"), make_rule(LIMIT), DecodeOptions(LIMIT, temperature=1.0)
    skips = random_skips(4, 2)
    draft = make("eagle", target)
    found = decode(target, skips, repeating_prompts, draft, rule, options)
    plain = decode(target, skips, repeating_prompts, None, rule, options)
    assert found != plain
    for skip, row in zip(skips, found, strict=True):
        for prompt, answer in zip(repeating_prompts, row, strict=True):
            assert answer == generate(target, prompt, skip, draft, rule, options)


VOCABULARY, WIDTH = 6, 16
SKIPS = [SkipSet((0,)), SkipSet((1,))]


@pytest.fixture(scope="module")
def small_model() -> PreTrainedModel:
    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=24,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_drawn_trees_leave_the_distribution_as_it_is(
    top_p, small_model, copy_model, without_blocks, make_rule, p_value, tmp_path
):
    torch.manual_seed(5)
    target, rule = TargetModel(copy_model(small_model)), make_rule(4)
    head = EagleHead(EagleConfig.of_target(small_model.config))
    params = {"head": str(save_eagle(tmp_path, head)), "max_nodes": 8, "max_depth": 2}
    draft = make_draft("eagle", params, Resources(target=target))
    options = DecodeOptions(4, temperature=0.9, top_p=top_p)
    prompt = [3, 1, 4, 1, 5]
    rows = 500
    # Rows of one prompt, each with a seed of its own.
    requests = [Request(prompt, rule, replace(options, seed=seed)) for _ in SKIPS for seed in range(rows)]
    decoding = Run(target, SKIPS, [prompt] * rows, draft, requests)
    while decoding.alive:
        decoding.step()
    done = decoding.generations()
    texts = list(product(range(VOCABULARY), repeat=3))
    for skip, answers in zip(SKIPS, (done[:rows], done[rows:]), strict=True):
        pruned, warp = without_blocks(small_model, skip), Sampler(options, 0).probabilities
        logits = pruned(torch.tensor([[*prompt, *text] for text in texts])).logits[:, len(prompt) - 1 :]
        exact = {
            text: float(torch.stack([warp(row[at])[token] for at, token in enumerate(text)]).prod())
            for text, row in zip(texts, logits, strict=True)
        }
        assert p_value((answer.token_ids[:3] for answer in answers), exact) > 1e-3
        assert {answer.counts.accepted[0] for answer in answers} == {0, 1, 2}


@pytest.fixture(scope="module")
def markov() -> PreTrainedModel:
    """A target whose next token depends on the last one alone: its blocks add nothing."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=24,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=128,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    for block in model.model.layers:
        block.self_attn.o_proj.weight.zero_()
        block.mlp.down_proj.weight.zero_()
    return model


def perfect_eagle(model: PreTrainedModel) -> EagleHead:
    """The embedding of a token is the target's feature there, but for its length."""
    head = EagleHead(EagleConfig.of_target(model.config))
    with torch.no_grad():
        head.fc.weight.copy_(torch.cat([torch.eye(32), torch.zeros(32, 32)], 1))
        head.fc.bias.zero_()
        head.block.self_attn.o_proj.weight.zero_()
        head.block.mlp.down_proj.weight.zero_()
    return head


def perfect_eagle3(model: PreTrainedModel) -> Eagle3Head:
    """It keeps no more than which token was read last, as one number of 32, and knows what follows each.

    Tapped states are embeddings, which the joining layer turns into such features. The block attends to its own place
    alone, adds the token that it reads and takes away the feature before it. Only tokens that follow can be drafted.
    """
    follower = model(torch.arange(24)[:, None]).logits[:, 0].argmax(-1)
    drafted = follower.unique()
    config = Eagle3Config.of_target(model.config, draft_vocab_size=len(drafted), qkv_bias=True)
    head, embeddings = Eagle3Head(config), model.get_input_embeddings().weight
    normed = embeddings / (embeddings.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).sqrt()
    attention, one_hot = head.midlayer.self_attn, torch.eye(24, 32)
    with torch.no_grad():
        head.fc.weight.zero_()
        head.fc.weight[:, :32] = (torch.linalg.pinv(embeddings) @ one_hot).T
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.zero_()
            projection.bias.fill_(20.0)
        attention.v_proj.weight[:, :32] = (torch.linalg.pinv(normed) @ one_hot).T
        # A feature has a length of 1, and of the root of 32 once it is normed.
        attention.v_proj.weight[:, 32:] = -torch.eye(32) / 32**0.5
        attention.v_proj.bias.zero_()
        attention.o_proj.weight.copy_(torch.eye(32))
        head.midlayer.mlp.down_proj.weight.zero_()
        head.lm_head.weight.zero_()
        head.lm_head.weight[:, :24] = 5.0 * (follower == drafted[:, None])
        assert head.d2t is not None
        assert head.t2d is not None
        head.d2t.copy_(drafted - torch.arange(len(drafted)))
        head.t2d.copy_(torch.isin(torch.arange(24), drafted))
    return head


def save_eagle3(folder: Path, head: Eagle3Head) -> Path:
    save_file(head.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(head.config.document()), encoding="utf-8")
    return folder


def perfect_medusa(model: PreTrainedModel) -> MedusaHeads:
    """Heads that tell each feature the tokens that come two, three, ... places after it."""
    features = model.model(torch.arange(24)[None]).last_hidden_state[0]
    follower = model.lm_head(features).argmax(-1)
    heads, after = MedusaHeads(32, 24, heads=3), follower
    for head in heads:
        after = follower[after]
        wanted = torch.nn.functional.one_hot(after, 24).float()
        with torch.no_grad():
            head[-1].weight.copy_((torch.linalg.pinv(features) @ wanted).T)
    return heads


@pytest.mark.parametrize(
    ("name", "params", "drafted"),
    [
        ("eagle", {}, 5),
        ("eagle", {"max_depth": 2}, 2),
        ("eagle2", {"depth": 3}, 4),
        ("eagle3", {}, 8),
        ("eagle3", {"depth": 3}, 4),
        ("medusa", {}, 3),
        ("medusa", {"max_depth": 2}, 2),
        ("samd", {"tree": "eagle2", "depth": 3, "min_match": 64}, 4),
    ],
)
def test_a_perfect_head_is_accepted_whole(name, params, drafted, markov, copy_model, make_rule, tmp_path):
    target, limit = TargetModel(copy_model(markov)), 1 + 3 * (drafted + 1)
    if name == "medusa":
        folder = save_medusa(tmp_path, perfect_medusa(markov))
    elif name == "eagle3":
        folder = save_eagle3(tmp_path, perfect_eagle3(markov))
    else:
        folder = save_eagle(tmp_path, perfect_eagle(markov))
    draft = make_draft(name, {"head": str(folder)} | params, Resources(target=target))
    prompts = [[1, 2, 3], [5, 6, 7, 8, 9]]
    skips = [SkipSet(), SkipSet((0, 2))]
    plain = decode(target, skips, prompts, None, make_rule(limit), DecodeOptions(limit))
    found = decode(target, skips, prompts, draft, make_rule(limit), DecodeOptions(limit))
    for row, others in zip(found, plain, strict=True):
        for answer, other in zip(row, others, strict=True):
            assert answer.token_ids == other.token_ids
            assert answer.counts.accepted == [drafted] * 3
