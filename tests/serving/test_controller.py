"""SkipController on a plain model: the same logits as without the blocks, and which choice holds when."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import copy_context

import pytest
import torch
from torch import nn
from transformers import PretrainedConfig

from skipmap.errors import InvalidInput
from skipmap.serving.controller import SkipController
from skipmap.skipset import SkipSet
from tests.serving.forwards import FAMILIES, close, logits
from tests.serving.small_maps import small_map

SKIPS = [[0], [0, 1, 2], [2, 5], [3], [1, 2, 3, 4, 5]]


@pytest.fixture
def model(tiny_model, copy_model):
    return copy_model(tiny_model("llama"))


@pytest.fixture
def controller(model):
    return SkipController(model, small_map({"qa": [0, 3], "summary": [5]}))


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


def test_failure_in_a_carried_over_use_is_not_lost(controller):
    def carried():
        with controller.use("qa"):
            yield
            raise KeyError("mine")

    pieces = carried()
    copy_context().run(next, pieces)
    with pytest.raises(InvalidInput, match="was left in another context") as error:
        next(pieces)
    assert isinstance(error.value.__cause__, KeyError)


def test_use_decorates(model, controller):
    @controller.use("qa")
    def inside():
        return controller.current

    assert [inside(), inside()] == [SkipSet.of([0, 3])] * 2
    assert controller.current == SkipSet()


def test_a_closed_controller_is_let_go(model):
    controller = SkipController(model)
    with controller.use([1]):
        logits(model)
    controller.close()
    seen = weakref.ref(controller)
    del controller
    gc.collect()
    assert seen() is None
