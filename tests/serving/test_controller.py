"""SkipController on a plain model: the same logits as without the blocks, a model that stays what it was."""

from __future__ import annotations

import asyncio
import gc
from copy import deepcopy

import pytest
import torch
from torch import nn
from transformers import DynamicCache, PretrainedConfig, StaticCache

from skipmap.errors import InvalidInput, ModelFailure, Refused
from skipmap.serving.controller import SkipController
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from tests.serving.small_maps import small_map

FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
SKIPS = [[0], [0, 1, 2], [2, 5], [3], [1, 2, 3, 4, 5]]
IDS = torch.tensor([[5, 9, 2, 77, 31, 4, 4, 60, 12, 8, 93, 1], [3, 3, 8, 41, 7, 90, 2, 55, 6, 71, 20, 19]])


@pytest.fixture
def model(tiny_model, copy_model):
    return copy_model(tiny_model("llama"))


@pytest.fixture
def controller(model):
    return SkipController(model, small_map({"qa": [0, 3], "summary": [5]}))


def logits(model, ids=IDS, **more):
    with torch.no_grad():
        return model(ids, **more).logits


def close(got, expected) -> bool:
    return got.shape == expected.shape and bool((got - expected).abs().max() <= 1e-5)


@pytest.mark.parametrize("skip", SKIPS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_without_the_blocks(tiny_model, copy_model, without_blocks, family, skip):
    model, pruned = copy_model(tiny_model(family)), without_blocks(tiny_model(family), skip)
    dense = logits(model)
    controller = SkipController(model)
    for more in ({}, {"use_cache": False}, {"attention_mask": torch.tensor([[0] * 4 + [1] * 8, [1] * 12])}):
        expected = logits(pruned, **more)
        with controller.use(skip):
            assert close(logits(model, **more), expected)
        assert not close(expected, dense)
    assert torch.equal(logits(model), dense)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_crops_and_reorders_of_a_cache(tiny_model, copy_model, without_blocks, family, attention):
    """Chunks take their positions and masks from the cache's first layer, which is skipped here."""
    skip = [0, 2]
    found = []
    for model, choice in (
        (copy_model(tiny_model(family)), skip),
        (without_blocks(tiny_model(family), skip), []),
    ):
        model.set_attn_implementation(attention)
        with SkipController(model) as controller, controller.use(choice), torch.no_grad():
            cache = DynamicCache(config=model.config)
            cache.activate_past_recording()
            outs = [model(IDS[:, :9], cache=cache).logits]
            cache.crop(-2)
            outs.append(model(IDS[:, 7:], cache=cache).logits)
            cache.crop(0)
            cache.reorder_cache(torch.tensor([1, 0]))
            outs.append(model(IDS[:, :3], cache=cache).logits)
            cache.batch_select_indices(torch.tensor([1]))
            cache.batch_repeat_interleave(3)
            outs.append(model(IDS[:1, :3].repeat(3, 1), cache=cache).logits)
            assert cache.get_seq_length() == 18
        found.append(torch.cat([out.flatten() for out in outs]))
    assert close(*found)


def test_domains_skip_sets_and_none(model, controller):
    given = {}
    for name, choice in {
        "qa": "qa",
        "set": SkipSet.of([0, 3]),
        "list": [3, 0],
        "unknown": "poetry",
        "none": None,
    }.items():
        with controller.use(choice) as skip:
            given[name] = (skip, controller.current, logits(model))
    assert [str(skip) for skip, _, _ in given.values()] == ["{0,3}", "{0,3}", "{0,3}", "{}", "{}"]
    assert all(skip == current for skip, current, _ in given.values())
    assert torch.equal(given["qa"][2], given["list"][2])
    assert torch.equal(given["unknown"][2], logits(model))


def test_nested_choices(model, controller):
    alone = {}
    for choice in ("qa", "summary", "poetry"):
        with controller.use(choice):
            alone[choice] = logits(model)
    with controller.use("qa"):
        with controller.use("summary"):
            with controller.use("poetry"):
                assert torch.equal(logits(model), alone["poetry"])
            assert torch.equal(logits(model), alone["summary"])
        with pytest.raises(RuntimeError, match="inside"), controller.use("summary"):
            raise RuntimeError("inside")
        assert torch.equal(logits(model), alone["qa"])


def test_a_choice_outlives_a_new_map(model):
    class Maps:
        now = small_map({"qa": [0]})

        def skip_for(self, domain):
            return self.now.skip_for(domain)

    maps = Maps()
    controller = SkipController(model, maps)
    wrapped = controller.wrap(lambda: controller.current, "qa")
    assert wrapped() == SkipSet.of([0])
    with controller.use("qa"):
        before = logits(model)
        maps.now = small_map({"qa": [4]})
        assert torch.equal(logits(model), before)
    assert wrapped() == SkipSet.of([4])
    with controller.use([4]):
        expected = logits(model)
    with controller.use("qa"):
        assert torch.equal(logits(model), expected)


def test_a_source_whose_map_does_not_fit_runs_dense(model, caplog):
    controller = SkipController(
        model, type("Maps", (), {"skip_for": lambda self, domain: SkipSet.of([17])})()
    )
    for _ in range(3):
        with controller.use("qa") as skip:
            assert skip == SkipSet()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ([6], "block 6 does not exist; the target has blocks 0..5"),
        (range(6), "all 6 blocks are skipped"),
        ([-1], "negative"),
        ("qa", "the controller has no map"),
    ],
)
def test_bad_choices(model, choice, message):
    controller = SkipController(model)
    with pytest.raises(InvalidInput, match=message), controller.use(choice):
        pass
    with pytest.raises(InvalidInput, match=message):
        controller.wrap(len, choice)
    assert controller.current == SkipSet()


def test_map_of_another_depth(model):
    with pytest.raises(InvalidInput, match="of a target with 8 blocks, and the model has 6"):
        SkipController(model, small_map({"qa": [7]}, num_layers=8))


def test_models_that_cannot(model, tiny_model, copy_model):
    for name, wrong in (
        ("Linear", nn.Linear(2, 2)),
        ("OptimizedModule", torch.compile(model, backend="eager")),
    ):
        with pytest.raises(InvalidInput, match=f"is a {name}, not a transformers PreTrainedModel"):
            SkipController(wrong)
    capped = copy_model(tiny_model("gemma3"))
    capped.config.num_kv_shared_layers = 2
    with pytest.raises(InvalidInput, match="reuse the keys and values of another block"):
        SkipController(capped)
    model.config = PretrainedConfig(model_type="gpt_nonsense", num_hidden_layers=6)
    with pytest.raises(InvalidInput, match="not among the architectures that are tested"):
        SkipController(model)


def test_one_controller_a_model(model):
    first = SkipController(model)
    for taken in (model, deepcopy(model)):
        with pytest.raises(InvalidInput, match="has a controller already"):
            SkipController(taken)
    first.close()
    SkipController(model).close()
    TargetModel(model)
    with pytest.raises(InvalidInput, match="was wrapped by TargetModel"):
        SkipController(model)


def test_the_model_stays_a_normal_model(model, controller, tmp_path):
    with controller.use("qa"):
        assert set(model.state_dict()) == {name for name, _ in model.named_parameters()} | {"lm_head.weight"}
        model.save_pretrained(tmp_path)
        expected = logits(model)
    assert [type(block).__name__ for block in model.model.layers] == ["LlamaDecoderLayer"] * 6
    loaded = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(logits(loaded), logits(model))
    twin = deepcopy(model)
    with torch.no_grad(), controller.use("qa"):
        assert torch.equal(logits(twin), expected)
        twin.model.layers[1].mlp.down_proj = nn.Linear(48, 32, bias=False)
        assert not torch.equal(logits(twin), expected)
        assert torch.equal(logits(model), expected)


def test_close_restores(model):
    def state():
        body = model.base_model
        return (
            [dict(block.__dict__) for block in body.layers],
            dict(body._forward_pre_hooks),
            dict(body._forward_hooks),
            dict(body._forward_hooks_with_kwargs),
        )

    own = model.model.layers[2].forward
    model.model.layers[2].forward = own
    before = state()
    controller = SkipController(model)
    assert state() != before
    with controller.use([1]), pytest.raises(Refused, match="1 'use' blocks are open"):
        controller.close()
    controller.close()
    controller.close()
    assert state() == before
    with pytest.raises(InvalidInput, match="is closed"), controller.use([1]):
        pass


def test_hooks_of_accelerate(model, without_blocks, tiny_model):
    from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module

    class Seen(ModelHook):
        def __init__(self):
            self.calls = 0

        def pre_forward(self, module, *args, **kwargs):
            self.calls += 1
            return args, kwargs

    expected = logits(without_blocks(tiny_model("llama"), [1, 4]))
    before, after = Seen(), Seen()
    blocks = model.model.layers
    for block in blocks[:3]:
        add_hook_to_module(block, before)
    controller = SkipController(model)
    for block in blocks[3:]:
        add_hook_to_module(block, after)
    with controller.use([1, 4]):
        assert close(logits(model), expected)
    assert (before.calls, after.calls) == (2, 3)
    # Taking off an older hook takes the controller's wrapper with it: never a silent dense run.
    remove_hook_from_module(blocks[1])
    with controller.use([1, 4]), pytest.raises(ModelFailure, match="5 of 6 blocks obeyed"):
        logits(model)
    controller.close()
    dense = logits(model)
    with SkipController(model) as again, again.use([1, 4]):
        assert close(logits(model), expected)
    assert torch.equal(logits(model), dense)


def test_a_cache_serves_one_skip_set(model, controller):
    with torch.no_grad():
        with controller.use("qa"):
            cache = model(IDS, use_cache=True).cache
        for choice in ("summary", "poetry"):
            with controller.use(choice), pytest.raises(InvalidInput, match=r"filled with skip set \{0,3\}"):
                model(IDS[:, :1], cache=cache)
        with pytest.raises(InvalidInput, match=r"filled with skip set \{0,3\}"):
            model(IDS[:, :1], cache=deepcopy(cache))
        dense = model(IDS, use_cache=True).cache
        with (
            controller.use("qa"),
            pytest.raises(InvalidInput, match=r"filled with skip set \{\}.*has \{0,3\}"),
        ):
            model(IDS[:, :1], cache=dense)
        cache.crop(-IDS.shape[1])
        for choice in ("summary", "poetry"):
            with controller.use(choice):
                fresh = model(IDS, cache=DynamicCache(config=model.config)).logits
                assert torch.equal(model(IDS, cache=cache).logits, fresh)
            cache.reset()


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_static_cache_is_used_again(tiny_model, copy_model, family):
    model = copy_model(tiny_model(family))
    cache = StaticCache(config=model.config, max_cache_len=20)
    with SkipController(model) as controller:
        for skip in ([0, 2], [5], []):
            with controller.use(skip):
                expected = logits(model)
                cache.reset()
                assert close(logits(model, cache=cache), expected)


def test_caches_that_cannot_hold_a_place(model, controller):
    class Packed(DynamicCache):
        def __init__(self):
            super().__init__()
            self.layer_class_to_replicate = type("PackedLayer", (), {})

    with controller.use("qa"), pytest.raises(InvalidInput, match="PackedLayer cannot hold the place"):
        model(IDS, cache=Packed())


def test_hidden_states_and_attentions(model, without_blocks, tiny_model):
    model.set_attn_implementation("eager")
    with SkipController(model) as controller, controller.use([0, 4]), torch.no_grad():
        out = model(IDS, output_hidden_states=True, output_attentions=True)
    assert len(out.hidden_states) == 7
    assert torch.equal(out.hidden_states[0], out.hidden_states[1])
    assert len(out.attentions) == 4


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_those_without_the_blocks(tiny_model, without_blocks, checkpointing):
    found = []
    source = deepcopy(tiny_model("llama")).requires_grad_(True)
    for model, skip in ((source, [0, 3]), (deepcopy(without_blocks(source, [0, 3])), [])):
        model.train()
        if checkpointing:
            model.activation_checkpointing_enable()
        with SkipController(model) as controller, controller.use(skip):
            model(IDS, labels=IDS, use_cache=False).loss.backward()
        kept = [block for block in range(6) if block not in skip][:4]
        found.append([model.model.layers[i].mlp.up_proj.weight.grad for i in kept])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))
    assert source.model.layers[0].mlp.up_proj.weight.grad is None


def test_compiled_after_attaching(model, controller):
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    for choice in ("qa", "poetry", "summary", "qa"):
        with controller.use(choice):
            assert close(logits(compiled), logits(model))
    torch._dynamo.reset()
    whole = torch.compile(model, backend="eager", fullgraph=True)
    with controller.use("qa"), pytest.raises(torch._dynamo.exc.Unsupported, match="ContextVar"):
        logits(whole)
    torch._dynamo.reset()


def test_wrap_refuses_generators(controller):
    def pieces():
        yield 1

    async def later_pieces():
        yield 1

    for fn in (pieces, later_pieces):
        with pytest.raises(InvalidInput, match="is a generator function"):
            controller.wrap(fn, "qa")


def test_wrapped_coroutine(controller):
    async def work():
        await asyncio.sleep(0)
        return controller.current

    assert asyncio.run(controller.wrap(work, "qa")()) == SkipSet.of([0, 3])


def test_use_carried_over_to_another_context(controller):
    async def carried():
        with controller.use("qa"):
            yield

    async def main():
        stream = carried()
        await asyncio.create_task(anext(stream))
        with pytest.raises(InvalidInput, match="was left in another context"):
            await anext(stream, None)

    asyncio.run(main())


def test_use_decorates(model, controller):
    @controller.use("qa")
    def inside():
        return controller.current

    assert [inside(), inside()] == [SkipSet.of([0, 3])] * 2
    assert controller.current == SkipSet()


def test_a_dropped_controller_is_collected(model):
    controller = SkipController(model)
    controller.close()
    refs = gc.get_referrers(controller)
    assert not [r for r in refs if isinstance(r, nn.Module)]
