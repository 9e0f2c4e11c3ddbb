"""Sizes of an EAGLE head, as its ``config.json`` tells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

from transformers import LlamaConfig, PreTrainedConfig

from skipmap.errors import InvalidInput

DEFAULT_ROPE: Mapping[str, Any] = {"rope_type": "default", "rope_theta": 10000.0}
UNEVEN_ROPES = frozenset({"dynamic", "longrope"})
"""Positions that depend on the longest sequence of a forward, which differs from row to row."""


@dataclass(frozen=True)
class EagleConfig:
    """Sizes of an EAGLE-1/2 head.

    ``vocab_size``: of the target. ``fc_bias``: of the layer that joins embedding and feature. ``qkv_bias``: of the
    query, key and value projections. ``rope``: rotary parameters as transformers names them.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    rope: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULT_ROPE))
    fc_bias: bool = True
    qkv_bias: bool = False

    @classmethod
    def of_target(cls, config: PreTrainedConfig, **sizes: Any) -> Self:
        """The head that EAGLE gives a target: one block of the target's own sizes; ``sizes`` replace some."""
        heads = int(config.num_attention_heads)
        own: dict[str, Any] = {
            "hidden_size": int(config.hidden_size),
            "intermediate_size": int(config.intermediate_size),
            "num_attention_heads": heads,
            "num_key_value_heads": int(getattr(config, "num_key_value_heads", None) or heads),
            "head_dim": int(getattr(config, "head_dim", None) or config.hidden_size // heads),
            "vocab_size": int(config.vocab_size),
            "rms_norm_eps": float(config.rms_norm_eps),
            "max_position_embeddings": int(config.max_position_embeddings),
            "rope": _rope_of_target(config),
        }
        return cls(**own | sizes)

    @classmethod
    def read(cls, document: Mapping[str, Any], where: str, **sizes: Any) -> Self:
        """From a head's ``config.json``; ``sizes`` are added.

        Raises InvalidInput naming ``where`` and the key that is missing or cannot be used.
        """
        number = _reader(document, where)
        hidden, heads = number("hidden_size", None), number("num_attention_heads", None)
        if number("num_hidden_layers", 1) != 1:
            raise _unfit(where, "num_hidden_layers", document["num_hidden_layers"], "1")
        groups, head_dim = number("num_key_value_heads", heads), number("head_dim", max(1, hidden // heads))
        if heads % groups:
            raise _unfit(where, "num_key_value_heads", groups, f"a divisor of num_attention_heads, {heads}")
        if head_dim % 2:
            raise _unfit(where, "head_dim", head_dim, "an even number (by default hidden_size by its heads)")
        found: dict[str, Any] = {
            "hidden_size": hidden,
            "intermediate_size": number("intermediate_size", None),
            "num_attention_heads": heads,
            "num_key_value_heads": groups,
            "head_dim": head_dim,
            "vocab_size": number("vocab_size", None),
            "max_position_embeddings": number("max_position_embeddings", 2048),
            "rms_norm_eps": document.get("rms_norm_eps", 1e-6),
            "hidden_act": document.get("hidden_act", "silu"),
            "rope": _rope_of_document(document, where),
        }
        return cls(**found | sizes)

    @cached_property
    def shape(self) -> LlamaConfig:
        """The one block of the head, as transformers describes it."""
        shape = LlamaConfig(
            vocab_size=1,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=1,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            hidden_act=self.hidden_act,
            max_position_embeddings=self.max_position_embeddings,
            rms_norm_eps=self.rms_norm_eps,
            rope_parameters=dict(self.rope),
            bos_token_id=None,
            eos_token_id=None,
        )
        # Else plain attention would be run, and without any mask.
        shape._attn_implementation = "sdpa"
        return shape

    def document(self) -> dict[str, Any]:
        """The head's ``config.json``."""
        values = asdict(self)
        rope = values.pop("rope")
        fc_bias = values.pop("fc_bias")
        scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
        is_plain = scaling.get("rope_type", "default") == "default"
        return values | {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": 1,
            "bias": fc_bias,
            "rope_theta": rope.get("rope_theta", DEFAULT_ROPE["rope_theta"]),
            # Older readers know the kind of scaling as ``type``.
            "rope_scaling": None if is_plain else scaling | {"type": scaling["rope_type"]},
        }


@dataclass(frozen=True)
class Eagle3Config(EagleConfig):
    """Sizes of an EAGLE-3 head.

    ``draft_vocab_size``: tokens that it can draft. ``taps``: blocks of the target whose inputs it reads; None for
    the published ones. ``norm_before_residual``: whether its block adds to the normed feature instead of the feature.
    """

    fc_bias: bool = False
    draft_vocab_size: int = 0
    taps: tuple[int, ...] | None = None
    norm_before_residual: bool = False

    def taps_of(self, num_layers: int) -> tuple[int, ...]:
        """Blocks of a target whose inputs are read: 2, the middle one and the third last, unless named."""
        return self.taps if self.taps is not None else (2, num_layers // 2, num_layers - 3)

    def document(self) -> dict[str, Any]:
        """The head's ``config.json``."""
        values = super().document()
        taps = values.pop("taps")
        if taps is not None:
            values["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(taps)}
        return values | {"architectures": ["LlamaForCausalLMEagle3"]}


def _reader(document: Mapping[str, Any], where: str) -> Callable[[str, int | None], int]:
    def number(key: str, otherwise: int | None) -> int:
        value = document.get(key)
        if value is None:
            if otherwise is None:
                raise InvalidInput(where, f"its config.json lacks {key}")
            return otherwise
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _unfit(where, key, value, "a whole number from 1 on")
        return value

    return number


def _unfit(where: str, key: str, given: object, allowed: str) -> InvalidInput:
    return InvalidInput(where, f"its config.json says {key} = {given!r}; allowed: {allowed}")


def _rope_of_document(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    theta = document.get("rope_theta") or DEFAULT_ROPE["rope_theta"]
    given = document.get("rope_parameters") or document.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise _unfit(where, "rope_scaling", given, "an object or null")
    kind = given.get("rope_type", given.get("type", "default"))
    if not isinstance(kind, str):
        raise _unfit(where, "rope_type", kind, "the name of a kind of scaling")
    if kind in UNEVEN_ROPES:
        raise _unfit(
            where, "rope_scaling", kind, "scaling that does not depend on the longest sequence of a batch"
        )
    return {"rope_theta": theta} | {k: v for k, v in given.items() if k != "type"} | {"rope_type": kind}


def _rope_of_target(config: PreTrainedConfig) -> dict[str, Any]:
    found = dict(getattr(config, "rope_parameters", None) or DEFAULT_ROPE)
    # Hybrid models hold one set for each block type.
    return dict(found.get("full_attention", found))
