"""The model stays a normal model: hooks, copies, gradients, compilation, and back as it was."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from skipmap.errors import InvalidInput, ModelFailure, Refused
from skipmap.serving.controller import SkipController
from skipmap.target.model import TargetModel
from tests.serving.forwards import IDS, close, logits
from tests.serving.small_maps import small_map


@pytest.fixture
def model(tiny_model, copy_model):
    return copy_model(tiny_model("llama"))


@pytest.fixture
def controller(model):
    return SkipController(model, small_map({"qa": [0, 3], "summary": [5]}))


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


@pytest.mark.slow
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
