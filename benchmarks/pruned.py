"""A Hugging Face model with blocks physically removed: the rival, the oracle, and a small model to draft with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from skipmap.skipset import SkipSet


@contextmanager
def pruned(model: PreTrainedModel, skip: SkipSet) -> Iterator[PreTrainedModel]:
    """The model without the blocks of ``skip`` while the context lasts; weights are shared, not copied."""
    backbone, config = model.base_model, model.config
    layers = backbone.layers
    kept = [index for index in range(len(layers)) if index not in skip]
    types = getattr(config, "layer_types", None)
    backbone.layers = nn.ModuleList([layers[index] for index in kept])
    _number(backbone.layers)
    config.num_hidden_layers = len(kept)
    if types is not None:
        config.layer_types = [types[index] for index in kept]
    try:
        yield model
    finally:
        backbone.layers = layers
        _number(layers)
        config.num_hidden_layers = len(layers)
        if types is not None:
            config.layer_types = types


def save_thinned(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, skip: SkipSet, folder: Path
) -> None:
    """Write the model without the blocks of ``skip``, with its tokenizer, as a model of its own."""
    with pruned(model, skip) as thinned:
        thinned.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _number(layers: nn.ModuleList) -> None:
    # The cache finds a block's keys by this number; it must have no gaps.
    for index, layer in enumerate(layers):
        layer.self_attn.layer_idx = index
