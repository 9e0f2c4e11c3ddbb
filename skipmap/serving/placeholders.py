"""What a skipped block leaves in the cache: nothing but its length.

transformers reads positions and mask sizes from the first cache layer, and crops, reorders and repeats all of them
alike. A skipped block therefore stores a placeholder of width 1 for each position, which nothing ever reads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from skipmap.errors import InvalidInput, choices
from skipmap.skipset import SkipSet

_MARK = "_skipmap_skip"
_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer, StaticLayer, StaticSlidingWindowLayer)


class CacheKeeper:
    """Keeps every cache to one skip set, and its layers at one length."""

    def __init__(self, config: PretrainedConfig) -> None:
        heads = int(config.num_attention_heads)
        self._heads = int(getattr(config, "num_key_value_heads", None) or heads)
        self._width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)

    def admit(self, cache: Any, skip: SkipSet) -> None:
        """Mark a new cache with ``skip``; raises InvalidInput for one that another skip set or dense has filled."""
        found: SkipSet | None = getattr(cache, _MARK, None)
        if found == skip:
            return
        if found is None:
            _check_kind(cache)
        if int(cache.get_seq_length()):
            _refuse(found or SkipSet(), skip)
        if found is not None:
            cache.reset()
        setattr(cache, _MARK, skip)

    def admit_dense(self, cache: Any) -> None:
        """Let a dense forward use ``cache``; raises InvalidInput when it was filled with blocks left out."""
        found: SkipSet | None = getattr(cache, _MARK, None)
        if found is None:
            return
        if int(cache.get_seq_length()):
            _refuse(found, SkipSet())
        cache.reset()
        delattr(cache, _MARK)

    def hold(self, cache: Cache, index: int, hidden: Tensor) -> None:
        """Give layer ``index`` of the cache the positions of ``hidden`` [rows, positions, width]."""
        heads, width, dtype = 1, 1, hidden.dtype
        layer = cache.layers[index] if index < len(cache.layers) else None
        if isinstance(layer, StaticLayer):
            # A static cache may be reset and used with another skip set, and keeps its shape.
            heads, width = self._heads, self._width
        if isinstance(layer, CacheLayerMixin) and layer.keys is not None and layer.keys.ndim == 4:
            heads, width, dtype = layer.keys.shape[1], layer.keys.shape[3], layer.keys.dtype
        rows, positions = hidden.shape[:2]
        nothing = torch.zeros(1, dtype=dtype, device=hidden.device).expand(rows, heads, positions, width)
        cache.update(nothing, nothing, index)


def _check_kind(cache: Any) -> None:
    kinds = {type(layer) for layer in getattr(cache, "layers", ())} | {
        kind for kind in (getattr(cache, "layer_class_to_replicate", None),) if kind is not None
    }
    if not isinstance(cache, Cache) or not kinds <= set(_LAYERS):
        named = [kind.__name__ for kind in kinds - set(_LAYERS)] or [type(cache).__name__]
        raise InvalidInput(
            "cache",
            f"{choices(named)} cannot hold the place of skipped blocks; use a DynamicCache (the default) or a "
            "StaticCache",
        )


def _refuse(found: SkipSet, skip: SkipSet) -> None:
    raise InvalidInput(
        "cache",
        f"was filled with skip set {found}, and this forward has {skip}; a cache serves one skip set: fill a new "
        "one, or go on with 'with controller.use(...)' of the set that 'as' gave when the cache was filled",
    )
