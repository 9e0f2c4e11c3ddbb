"""Every way in which ``generate`` fills a cache, against the model without the blocks."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    CompileConfig,
    DynamicCache,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from skipmap.errors import InvalidInput
from skipmap.serving.controller import SkipController

FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
SKIPS = [[0], [0, 1, 3], [2, 5]]
# Repeats itself, so that prompt lookup finds something to copy.
PROMPT = torch.tensor([[11, 7, 42, 19, 3, 11, 7, 42, 19, 5, 11, 7]])
PADDED = torch.tensor([[0] * 5 + [8, 3, 60, 41, 7, 2, 90], PROMPT[0].tolist()])
MASK = torch.tensor([[0] * 5 + [1] * 7, [1] * 12])
MODES = {
    "greedy": {},
    "no cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static"},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "prefill in chunks": {"prefill_chunk_size": 5},
}


@pytest.fixture
def pair(tiny_model, copy_model, without_blocks):
    """A controller's model, its controller, and the model without the blocks."""

    def build(family, skip):
        model = copy_model(tiny_model(family))
        return model, SkipController(model), without_blocks(tiny_model(family), skip)

    return build


def generate(model, ids=PROMPT, mask=None, **more):
    mask = torch.ones_like(ids) if mask is None else mask
    settings = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0, **more}
    with torch.no_grad():
        return model.generate(ids, attention_mask=mask, **settings)


@pytest.mark.parametrize("skip", SKIPS, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_texts_are_those_without_the_blocks(pair, family, mode, skip):
    model, controller, pruned = pair(family, skip)
    with controller.use(skip):
        found = generate(model, PADDED, MASK, **MODES[mode])
    assert torch.equal(found, generate(pruned, PADDED, MASK, **MODES[mode]))


@pytest.mark.parametrize("skip", SKIPS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_speculation_gives_the_greedy_text(pair, family, skip):
    """Chunks of drafts after a crop: what goes wrong when the first layer's cache is empty."""
    model, controller, pruned = pair(family, skip)
    expected = generate(pruned)
    drafting = small_draft()
    with controller.use(skip):
        assert torch.equal(generate(model, prompt_lookup_num_tokens=4), expected)
        assert torch.equal(generate(model, assistant_model=drafting), expected)


def test_speculation_accepts_and_rejects_drafts(pair):
    """The check above would be idle if all drafts were rejected."""
    model, controller, pruned = pair("llama", [0])
    steps = []
    model.model.register_forward_pre_hook(
        lambda body, args, kw: steps.append(kw["input_ids"].shape[1]), with_kwargs=True
    )
    with controller.use([0]):
        out = generate(model, assistant_model=pruned)
    assert torch.equal(out, generate(pruned))
    assert len(steps) < 24
    steps.clear()
    with controller.use([0]):
        generate(model, prompt_lookup_num_tokens=4)
    assert max(steps[1:]) > 1
    assert len(steps) > 24 / 5


def test_the_choice_is_the_targets_alone(pair):
    """A draft model under the target's ``use`` runs all its blocks, or those of its own controller."""
    model, controller, _ = pair("llama", [0])
    draft = small_draft()
    ran = count_attention(draft)
    with controller.use([0, 2]):
        generate(model, assistant_model=draft)
    assert ran[0] == ran[1] > 0
    ran[:] = [0, 0]
    with SkipController(draft) as drafts, controller.use([0, 2]), drafts.use([0]):
        generate(model, assistant_model=draft)
    assert ran[0] == 0 < ran[1]


def test_blocks_really_stay_out(pair):
    model, controller, _ = pair("llama", [0])
    ran = count_attention(model)
    with controller.use([0, 3]):
        generate(model, max_new_tokens=5)
    assert ran == [0, 5, 5, 0, 5, 5]
    generate(model, max_new_tokens=5)
    assert ran == [5, 10, 10, 5, 10, 10]


def test_sampling_draws_the_same(pair):
    model, controller, pruned = pair("qwen3", [0, 4])
    torch.manual_seed(3)
    expected = generate(pruned, do_sample=True, temperature=1.3, top_k=20)
    torch.manual_seed(3)
    with controller.use([0, 4]):
        assert torch.equal(generate(model, do_sample=True, temperature=1.3, top_k=20), expected)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_conversation_goes_on_with_its_cache(pair, family):
    model, controller, pruned = pair(family, [0, 2])
    texts = []
    for each, choice in ((model, [0, 2]), (pruned, [])):
        cache = DynamicCache(config=each.config)
        with controller.use(choice):
            said = generate(each, max_new_tokens=6, cache=cache)
            texts.append(generate(each, torch.cat([said, PROMPT], dim=1), cache=cache))
    assert torch.equal(*texts)
    with controller.use([5]), pytest.raises(InvalidInput, match="a cache serves one skip set"):
        generate(model, torch.cat([said, PROMPT], dim=1), cache=cache_of(model, controller, [0, 2]))


def test_early_exit_of_the_same_model_is_refused(pair):
    model, controller, _ = pair("llama", [0])
    with controller.use([0]), pytest.raises(Exception, match="assistant_early_exit"):
        generate(model, assistant_early_exit=3)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_generation_that_compiles(pair, family):
    """What generate does with a static cache on a GPU."""
    torch._dynamo.reset()
    compiling = CompileConfig(backend="eager", fullgraph=False, mode=None)
    compiling._compile_all_devices = True
    for skip in ([0], [1, 2], []):
        model, controller, pruned = pair(family, skip)
        with controller.use(skip):
            found = generate(model, cache_implementation="static", compile_config=compiling)
        assert torch.equal(found, generate(pruned))
    torch._dynamo.reset()


def cache_of(model, controller, skip):
    cache = DynamicCache(config=model.config)
    with controller.use(skip):
        generate(model, max_new_tokens=2, cache=cache)
    return cache


def count_attention(model) -> list[int]:
    """How often each block's attention ran; hooks on whole blocks would count skipped ones too."""
    ran = [0] * len(model.model.layers)

    def count(index):
        def add(*_):
            ran[index] += 1

        return add

    for index, block in enumerate(model.model.layers):
        block.self_attn.register_forward_hook(count(index))
    return ran


def small_draft() -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    draft = LlamaForCausalLM(config).eval()
    draft.generation_config = GenerationConfig(num_assistant_tokens=4, pad_token_id=0)
    return draft


@pytest.mark.model
def test_the_demo_model(smollm2_dir, without_blocks):
    model = AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(smollm2_dir)
    ids = tokenizer("The small house stands by the river. The small house", return_tensors="pt").input_ids
    for skip in ([0], [9, 17, 22]):
        expected = generate(without_blocks(model, skip), ids)
        with SkipController(model) as controller, controller.use(skip):
            assert torch.equal(generate(model, ids), expected)
            assert torch.equal(generate(model, ids, prompt_lookup_num_tokens=5), expected)
