from __future__ import annotations

import pytest
import transformers as hf

from skipmap.errors import InvalidInput
from skipmap.target.families import FULL, SLIDING, block_types, check_supported


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3"])
def test_supported_families_give_a_type_for_each_block(family, tiny_model):
    config = tiny_model(family).config
    types = check_supported(config)
    assert len(types) == config.num_hidden_layers
    expected = {"mistral": {SLIDING}, "gemma3": {SLIDING, FULL}}.get(family, {FULL})
    assert set(types) == expected


def test_block_types_follow_the_config():
    hybrid = hf.Qwen2Config(
        num_hidden_layers=4, use_sliding_window=True, sliding_window=16, max_window_layers=1
    )
    assert block_types(hybrid) == (FULL, SLIDING, SLIDING, SLIDING)
    assert block_types(hf.MistralConfig(num_hidden_layers=2, sliding_window=None)) == (FULL, FULL)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (hf.GPT2Config(), "not among the architectures that are tested"),
        (hf.PhiConfig(), "not among the architectures that are tested"),
        (hf.Gemma3nTextConfig(), "reuse the keys and values of another block"),
        (hf.LlamaConfig(num_kv_shared_layers=2), "reuse the keys and values of another block"),
        (hf.Qwen3NextConfig(), "linear_attention blocks"),
        (hf.Llama4TextConfig(), "chunked_attention blocks"),
        (hf.Gemma2Config(), "caps logits"),
        (hf.Gemma3TextConfig(use_bidirectional_attention=True), "bidirectional"),
        (
            hf.Qwen3Config(num_hidden_layers=2, layer_types=[SLIDING, FULL], sliding_window=None),
            "no sliding_window",
        ),
    ],
    ids=lambda value: getattr(value, "model_type", None),
)
def test_unsafe_architecture_is_refused_with_the_reason(config, reason):
    with pytest.raises(InvalidInput, match=reason) as caught:
        check_supported(config)
    assert caught.value.field == "target"
    assert repr(config.model_type) in str(caught.value)
    assert "LlamaForCausalLM" in str(caught.value)
