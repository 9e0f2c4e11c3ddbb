"""Which causal language models can run with any skip set, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable

from transformers import PretrainedConfig

from skipmap.errors import InvalidInput, choices

FULL = "full_attention"
SLIDING = "sliding_attention"

# Architectures whose blocks form one residual stream, keep their own keys and values, and take masks from outside.
SUPPORTED = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}

GGUF_ARCHITECTURES = frozenset({"llama", "qwen2", "qwen3", "gemma3"})
"""How GGUF files name the supported architectures; Mistral's call themselves llama."""


def check_supported(config: PretrainedConfig) -> tuple[str, ...]:
    """Return the block types [L] of a model that can be run safely; raise InvalidInput with the reason otherwise."""
    reason = _refusal(config)
    if reason:
        raise InvalidInput(
            "target",
            f"architecture {config.model_type!r} cannot run with skipped blocks: {reason}. "
            f"Supported: {choices(SUPPORTED.values())}",
        )
    return block_types(config)


def block_types(config: PretrainedConfig) -> tuple[str, ...]:
    """Attention type of every block: full, or sliding window."""
    layers = int(config.num_hidden_layers)
    declared: Iterable[str] | None = getattr(config, "layer_types", None)
    if declared is not None:
        return tuple(declared)[:layers]
    return (SLIDING if getattr(config, "sliding_window", None) else FULL,) * layers


def _refusal(config: PretrainedConfig) -> str | None:
    if getattr(config, "num_kv_shared_layers", 0):
        return "some blocks reuse the keys and values of another block, which may be skipped"
    types = set(getattr(config, "layer_types", None) or ())
    recurrent = types - {FULL, SLIDING}
    if recurrent:
        return (
            f"it has {choices(recurrent)} blocks, whose recurrent or chunked state cannot be cut after a step"
        )
    if getattr(config, "attn_logit_softcapping", None):
        return "its attention caps logits, which the row-wise attention here does not apply"
    if getattr(config, "use_bidirectional_attention", False):
        return "its attention is bidirectional"
    if _rope_types(config) & {"dynamic", "longrope"}:
        return (
            "its rotary positions depend on the longest sequence of a forward, which differs from row to row"
        )
    if config.model_type not in SUPPORTED:
        return "it is not among the architectures that are tested"
    if SLIDING in block_types(config) and not getattr(config, "sliding_window", None):
        return "its config names sliding blocks but no sliding_window"
    return None


def _rope_types(config: PretrainedConfig) -> set[str]:
    parameters = getattr(config, "rope_parameters", None) or {}
    # Hybrid models hold one set of parameters for each block type.
    sets = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    return {str(found.get("rope_type")) for found in sets}
