"""Caches of which a skipped block holds the place: cropped, reordered, reset, refused."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from transformers import DynamicCache, StaticCache

from skipmap.errors import InvalidInput
from skipmap.serving.controller import SkipController
from tests.serving.forwards import FAMILIES, IDS, close, logits
from tests.serving.small_maps import small_map


@pytest.fixture
def model(tiny_model, copy_model):
    return copy_model(tiny_model("llama"))


@pytest.fixture
def controller(model):
    return SkipController(model, small_map({"qa": [0, 3], "summary": [5]}))


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
