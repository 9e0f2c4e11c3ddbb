"""Heads of the published layouts are read key by key, and what does not fit is named."""

from __future__ import annotations

import json

import pytest
import torch

from skipmap.drafts.base import Resources
from skipmap.drafts.checkpoints import open_checkpoint
from skipmap.drafts.heads import loading
from skipmap.drafts.heads.loading import MEDUSA_WEIGHTS, kept, load_eagle, load_eagle3, load_medusa
from skipmap.drafts.registry import check_params, make_draft
from skipmap.errors import InvalidInput, NotFound
from skipmap.target.model import TargetModel
from tests.drafts.heads import published
from tests.drafts.heads.published import FILES, D, H, V, write, write_medusa

FIELD = "draft.params.head"


@pytest.fixture(scope="module")
def target(tiny_target) -> TargetModel:
    return tiny_target("llama")


def opened(name: str, **more):
    return open_checkpoint(name, FIELD, **more)


def same(found, expected) -> None:
    assert set(found) == set(expected)
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor)


LAYOUTS = {
    "bias": (published.eagle(), {}),
    "bias said": (published.eagle(), {"bias": True}),
    "no bias": (published.eagle(bias=False), {"bias": False}),
    "qwen2": (published.eagle(qkv=True), {"qkv_bias": True}),
    "qwen2 without a word": (published.eagle(qkv=True), {}),
}


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_eagle(layout, files, target, tmp_path):
    tensors, config = LAYOUTS[layout]
    head = load_eagle(opened(write(tmp_path, tensors, config, files)), target)
    # The embeddings are the target's.
    same(head.state_dict(), {key: x for key, x in tensors.items() if key != "embed_tokens.weight"})
    assert not any(parameter.requires_grad for parameter in head.parameters())


def test_eagle_under_a_model_prefix_and_with_leftovers(target, tmp_path):
    tensors = published.eagle()
    more = {"lm_head.weight": torch.zeros(V, H), "layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)}
    named = {f"model.{key}": tensor for key, tensor in (tensors | more).items()}
    head = load_eagle(opened(write(tmp_path, named)), target)
    same(head.state_dict(), {key: x for key, x in tensors.items() if key != "embed_tokens.weight"})


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("drafted", [40, V])
def test_eagle3(drafted, files, target, tmp_path):
    tensors = published.eagle3(drafted=drafted)
    config = {"draft_vocab_size": drafted, "architectures": ["LlamaForCausalLMEagle3"]}
    head = load_eagle3(opened(write(tmp_path, tensors, config, files)), target)
    same(head.state_dict(), tensors)
    assert head.target_tokens(torch.tensor([0, 3, 39])).tolist() == (
        [0, 6, 78] if drafted == 40 else [0, 3, 39]
    )


def test_eagle3_as_other_tools_name_it(target, tmp_path):
    tensors = published.eagle3()
    named = {key.replace("midlayer.", "model.layers.0."): tensor for key, tensor in tensors.items()}
    named["embed_tokens.weight"] = torch.zeros(V, H)
    config = {
        "draft_vocab_size": 40,
        "target_hidden_size": H,
        "norm_before_residual": True,
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [1, 4, 5]},
    }
    head = load_eagle3(opened(write(tmp_path, named, config)), target)
    same(head.state_dict(), tensors)
    assert head.config.taps_of(6) == (1, 4, 5)
    assert head.config.norm_before_residual


def test_eagle3_with_its_block_described_apart(target, tmp_path):
    tensors = published.eagle3()
    name = write(tmp_path, tensors)
    config = {
        "transformer_layer_config": published.CONFIG,
        "draft_vocab_size": 40,
        "target_hidden_size": None,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    same(load_eagle3(opened(name), target).state_dict(), tensors)


def test_eagle3_without_a_mask_of_what_it_drafts(target, tmp_path):
    tensors = published.eagle3()
    name = write(tmp_path, without(tensors, "t2d"), {"draft_vocab_size": 40})
    same(load_eagle3(opened(name), target).state_dict(), tensors)


def test_eagle3_reads_the_published_blocks(target, tmp_path):
    head = load_eagle3(opened(write(tmp_path, published.eagle3(), {"draft_vocab_size": 40})), target)
    assert head.config.taps_of(32) == (2, 16, 29)
    assert head.config.taps_of(target.num_layers) == (2, 3, 3)


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("file", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_medusa(file, blocks, target, tmp_path):
    tensors = published.medusa(heads=5, blocks=blocks)
    heads = load_medusa(opened(write_medusa(tmp_path, tensors, file), names=MEDUSA_WEIGHTS), target)
    assert len(heads) == 5
    same(heads.state_dict(), tensors)


@pytest.mark.parametrize("files", FILES)
def test_medusa_inside_a_whole_model(files, target, tmp_path):
    tensors = published.medusa()
    model = {"model.embed_tokens.weight": torch.zeros(V, H), "lm_head.weight": torch.zeros(V, H)}
    whole = model | {f"medusa_head.{key}": tensor for key, tensor in tensors.items()}
    heads = load_medusa(opened(write(tmp_path, whole, files=files), names=MEDUSA_WEIGHTS), target)
    same(heads.state_dict(), tensors)


def without(tensors, key):
    return {name: tensor for name, tensor in tensors.items() if name != key}


def cut(tensors, key):
    return tensors | {key: tensors[key][:-1].clone()}


EAGLE, EAGLE3 = published.eagle(), published.eagle3()
PART = {"draft_vocab_size": 40}

KV_3 = EAGLE | {f"layers.0.self_attn.{p}_proj.weight": torch.zeros(3 * D, H) for p in "kv"}
WHOLE = {f"medusa_head.{key}": x for key, x in published.medusa().items()}

MISFITS = {
    "missing": (
        load_eagle,
        without(EAGLE, "layers.0.mlp.up_proj.weight"),
        {},
        r"lacks layers\.0\.mlp\.up_proj\.weight, expected with shape \[48, 32\]",
    ),
    "missing bias": (load_eagle, published.eagle(bias=False), {"bias": True}, r"lacks fc\.bias"),
    "bias that is not": (
        load_eagle,
        EAGLE,
        {"bias": False},
        r"has fc\.bias, which .* expected: fc\.weight, ",
    ),
    "extra": (
        load_eagle,
        EAGLE | {"layers.1.mlp.up_proj.weight": torch.zeros(48, H)},
        {},
        r"has layers\.1\.mlp\.up_proj\.weight, which this head does not know",
    ),
    "shape": (
        load_eagle,
        cut(EAGLE, "layers.0.self_attn.k_proj.weight"),
        {},
        r"layers\.0\.self_attn\.k_proj\.weight has shape \[15, 32\], expected \[16, 32\]",
    ),
    "embedding": (
        load_eagle,
        cut(EAGLE, "embed_tokens.weight"),
        {},
        r"embed_tokens\.weight has shape \[96, 32\]",
    ),
    "vocabulary": (load_eagle, EAGLE, {"vocab_size": 98}, "its vocab_size is 98, the target's 97"),
    "width": (load_eagle, EAGLE, {"hidden_size": 64}, "its hidden_size is 64, the target's 32"),
    "layers": (load_eagle, EAGLE, {"num_hidden_layers": 2}, "says num_hidden_layers = 2; allowed: 1"),
    "no number": (load_eagle, EAGLE, {"hidden_size": "32"}, "hidden_size = '32'; allowed: a whole number"),
    "no width": (load_eagle, EAGLE, {"hidden_size": None}, "lacks hidden_size"),
    "no activation": (
        load_eagle,
        EAGLE,
        {"hidden_act": "oak"},
        "no network that can be made: KeyError.'oak'",
    ),
    "rope": (
        load_eagle,
        EAGLE,
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "rope_scaling = 'dynamic'",
    ),
    "rope without a name": (
        load_eagle,
        EAGLE,
        {"rope_scaling": {"rope_type": ["linear"]}},
        r"rope_type = \['linear'\]; allowed: the name of a kind",
    ),
    "uneven groups": (
        load_eagle,
        KV_3,
        {"num_key_value_heads": 3},
        "num_key_value_heads = 3; allowed: a divisor of num_attention_heads, 4",
    ),
    "odd heads": (load_eagle, EAGLE, {"head_dim": 7}, "head_dim = 7; allowed: an even number"),
    "whole weights": (
        load_eagle,
        EAGLE | {"fc.bias": torch.zeros(H, dtype=torch.int8)},
        {},
        r"fc\.bias holds torch\.int8, expected floating-point numbers",
    ),
    "not a number": (
        load_eagle,
        EAGLE | {"fc.bias": torch.full((H,), torch.nan)},
        {},
        r"fc\.bias holds NaN or infinite numbers",
    ),
    "broken d2t": (
        load_eagle3,
        EAGLE3 | {"d2t": EAGLE3["d2t"].float()},
        PART,
        r"d2t holds torch\.float32, expected whole numbers",
    ),
    "version 3": (load_eagle, EAGLE3, {}, "is an EAGLE-3 head; use the method eagle3"),
    "version 1": (load_eagle3, EAGLE, {}, "is no EAGLE-3 head.*use the method eagle or eagle2"),
    "no d2t": (load_eagle3, without(EAGLE3, "d2t"), PART, r"lacks d2t, expected with shape \[40\]"),
    "draft vocabulary": (
        load_eagle3,
        EAGLE3,
        {"draft_vocab_size": 41},
        r"d2t has shape \[40\], expected \[41\]",
    ),
    "d2t beyond": (
        load_eagle3,
        EAGLE3 | {"d2t": EAGLE3["d2t"] + 60},
        PART,
        r"d2t leads to tokens outside .*0\.\.96",
    ),
    "d2t against t2d": (
        load_eagle3,
        EAGLE3 | {"d2t": EAGLE3["d2t"] + 1},
        PART,
        "d2t and t2d contradict each other",
    ),
    "taps": (
        load_eagle3,
        EAGLE3,
        PART | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 3, 6]}},
        "the blocks 2, 3, 6, but the target has 6",
    ),
    "taps that are none": (
        load_eagle3,
        EAGLE3,
        PART | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ["a"]}},
        "a list of block numbers",
    ),
    "one state": (
        load_eagle3,
        EAGLE3,
        PART | {"eagle_config": {"use_aux_hidden_state": False}},
        "not supported",
    ),
    "other width": (load_eagle3, EAGLE3, PART | {"target_hidden_size": 64}, "target_hidden_size differs"),
    "no heads": (
        load_medusa,
        EAGLE,
        {},
        r"holds no Medusa heads; expected keys such as medusa_head\.\{head\}",
    ),
    "no number of a head": (
        load_medusa,
        WHOLE | {"medusa_head.first": torch.zeros(1)},
        {},
        "holds no Medusa heads",
    ),
    "a head far away": (
        load_medusa,
        WHOLE | {"medusa_head.99999.0.linear.weight": torch.zeros(1)},
        {},
        "numbers 100000 heads of 1 blocks, but has 13 tensors",
    ),
    "one head short": (
        load_medusa,
        without(WHOLE, "medusa_head.1.0.linear.bias"),
        {},
        r"lacks 1\.0\.linear\.bias, expected with shape \[32\]",
    ),
    "other vocabulary": (
        load_medusa,
        cut(WHOLE, "medusa_head.2.1.weight"),
        {},
        r"2\.1\.weight has shape \[96, 32\], expected \[97, 32\]",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_named(case, target, tmp_path):
    load, tensors, config, says = MISFITS[case]
    checkpoint = opened(write(tmp_path, tensors, config), names=MEDUSA_WEIGHTS)
    with pytest.raises(InvalidInput, match=says) as caught:
        load(checkpoint, target)
    assert caught.value.field == FIELD


def test_heads_stay_in_memory_for_a_while(target, tiny_target, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_kept", type(loading._kept)())
    names = [write(tmp_path / str(seed), published.eagle(seed)) for seed in range(3)]
    heads = [kept(load_eagle, opened(name), target) for name in names[:2]]
    assert kept(load_eagle, opened(names[0]), tiny_target("llama")) is heads[0]
    kept(load_eagle, opened(names[2]), target)
    assert len(loading._kept) == 2
    assert kept(load_eagle, opened(names[0]), target) is heads[0]
    assert kept(load_eagle, opened(names[1]), target) is not heads[1]


@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3", "medusa"])
def test_methods_need_a_head_and_a_target(name, target, tmp_path):
    assert check_params(name, {"head": "/does/not/exist"}).head == "/does/not/exist"
    with pytest.raises(InvalidInput, match=r"draft\.params\.head"):
        check_params(name)
    with pytest.raises(InvalidInput, match="with the target itself, which is not loaded here") as caught:
        make_draft(name, {"head": str(tmp_path)})
    assert caught.value.field == "draft.method"
    with pytest.raises(NotFound, match=r"draft\.params\.head: .*gone does not exist"):
        make_draft(name, {"head": str(tmp_path / "gone")}, Resources(target=target))
