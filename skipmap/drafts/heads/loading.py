"""Read heads of the published layouts, and say what does not fit the target."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from skipmap.drafts.checkpoints import Checkpoint
from skipmap.drafts.heads.config import Eagle3Config, EagleConfig
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.eagle3 import Eagle3Head
from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.target.model import TargetModel
from skipmap.target.packed import pack_linears

MEDUSA_WEIGHTS = ("medusa_lm_head.safetensors", "medusa_lm_head.pt", "model.safetensors", "pytorch_model.bin")
MEDUSA_PREFIX = "medusa_head."
"""Of the heads' keys where a file holds the whole model."""

TOKEN_TABLES = frozenset({"d2t", "t2d"})
"""Keys of EAGLE-3 heads that hold token numbers and whether there is one; all others hold weights."""

HEADS_KEPT = 2

Head = TypeVar("Head", bound=nn.Module)

_kept: OrderedDict[tuple[object, ...], nn.Module] = OrderedDict()


def kept(
    load: Callable[[Checkpoint, TargetModel], Head], checkpoint: Checkpoint, target: TargetModel
) -> Head:
    """A head ready to run; the last few stay in memory, since a draft is made anew for every piece of work."""
    g = target.geometry
    key = (
        load,
        checkpoint.fingerprint,
        g.device,
        g.dtype,
        _width(target),
        target.vocabulary_size,
        target.num_layers,
    )
    if key not in _kept:
        head = load(checkpoint, target)
        pack_linears(head)
        _kept[key] = head
        while len(_kept) > HEADS_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return cast(Head, _kept[key])


def load_eagle(checkpoint: Checkpoint, target: TargetModel) -> EagleHead:
    """An EAGLE-1/2 head on the target's device, in its type; raises InvalidInput for one that does not fit."""
    tensors = {key.removeprefix("model."): x for key, x in checkpoint.tensors().items()}
    if any(key.endswith("hidden_norm.weight") for key in tensors):
        raise checkpoint.unfit("is an EAGLE-3 head; use the method eagle3")
    config = EagleConfig.read(
        checkpoint.config,
        checkpoint.field,
        fc_bias=_is_there(checkpoint, "bias", tensors, "fc.bias"),
        qkv_bias=_is_there(checkpoint, "qkv_bias", tensors, "layers.0.self_attn.q_proj.bias"),
    )
    _check_target(checkpoint, config, target)
    whole = (config.vocab_size, config.hidden_size)
    # Both are the target's own; files hold a copy of one or the other.
    unread = {"embed_tokens.weight": whole, "lm_head.weight": whole}
    head = _built(lambda: EagleHead(config), checkpoint)
    _fill(head, tensors, unread, checkpoint, target)
    head.rotary = LlamaRotaryEmbedding(config.shape).to(target.device)
    return head


def load_eagle3(checkpoint: Checkpoint, target: TargetModel) -> Eagle3Head:
    """An EAGLE-3 head on the target's device, in its type; raises InvalidInput for one that does not fit."""
    tensors = {_midlayer(key.removeprefix("model.")): x for key, x in checkpoint.tensors().items()}
    if not any(key.endswith("hidden_norm.weight") for key in tensors):
        raise checkpoint.unfit(
            "is no EAGLE-3 head: it has no midlayer.hidden_norm.weight; use the method eagle or eagle2"
        )
    document = _flat(checkpoint.config)
    config = Eagle3Config.read(
        document,
        checkpoint.field,
        qkv_bias=_is_there(checkpoint, "qkv_bias", tensors, "midlayer.self_attn.q_proj.bias"),
        **_eagle3_sizes(checkpoint, document),
    )
    config = replace(config, draft_vocab_size=config.draft_vocab_size or config.vocab_size)
    _check_target(checkpoint, config, target)
    taps = config.taps_of(target.num_layers)
    for block in taps:
        if not 0 <= block < target.num_layers:
            raise checkpoint.unfit(
                f"reads the inputs of the blocks {', '.join(map(str, taps))}, but the target has {target.num_layers}"
            )
    unread: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (config.vocab_size, config.hidden_size)}
    if config.draft_vocab_size == config.vocab_size:
        unread |= {"d2t": (config.vocab_size,), "t2d": (config.vocab_size,)}
    elif "t2d" not in tensors and "d2t" in tensors:
        # Drafting has no use for it, so some files leave it out.
        tensors["t2d"] = _drafted(tensors["d2t"], config.vocab_size)
    head = _built(lambda: Eagle3Head(config, len(taps)), checkpoint)
    _fill(head, tensors, unread, checkpoint, target)
    head.rotary = LlamaRotaryEmbedding(config.shape).to(target.device)
    _check_vocabulary(head, checkpoint)
    return head


def load_medusa(checkpoint: Checkpoint, target: TargetModel) -> MedusaHeads:
    """Medusa heads on the target's device, in its type; raises InvalidInput for ones that do not fit.

    How many heads and blocks there are, the file's keys say: published configurations name other numbers.
    """
    is_alone = checkpoint.files[0].name.startswith("medusa_lm_head")
    tensors = checkpoint.tensors("" if is_alone else MEDUSA_PREFIX)
    places = [key.split(".")[:2] for key in tensors]
    if not places or not all(len(place) == 2 and all(map(_is_number, place)) for place in places):
        wanted = (
            "{head}.{block}.linear.weight" if is_alone else f"{MEDUSA_PREFIX}{{head}}.{{block}}.linear.weight"
        )
        raise checkpoint.unfit(f"holds no Medusa heads; expected keys such as {wanted}")
    heads, blocks = 1 + max(int(head) for head, _ in places), max(int(block) for _, block in places)
    # Before as many are made as a wrong number says.
    if heads * (blocks + 1) > len(tensors):
        raise checkpoint.unfit(f"numbers {heads} heads of {blocks} blocks, but has {len(tensors)} tensors")
    module = _built(lambda: MedusaHeads(_width(target), target.vocabulary_size, heads, blocks), checkpoint)
    _fill(module, tensors, {}, checkpoint, target)
    return module


def _built(make: Callable[[], Head], checkpoint: Checkpoint) -> Head:
    """A network without memory for its weights, which come from the file."""
    try:
        with torch.device("meta"):
            return make()
    except Exception as error:
        raise checkpoint.unfit(f"its config.json describes no network that can be made: {error!r}") from None


def _fill(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    unread: Mapping[str, tuple[int, ...]],
    checkpoint: Checkpoint,
    target: TargetModel,
) -> None:
    """Put tensors into a module that holds none yet; ``unread``: shapes of keys that may be there besides."""
    wanted = {key: tuple(x.shape) for key, x in module.state_dict().items()}
    for key, shape in wanted.items():
        if key not in tensors:
            raise checkpoint.unfit(f"lacks {key}, expected with shape {list(shape)}")
    for key, tensor in tensors.items():
        expected = wanted.get(key, unread.get(key))
        if expected is None:
            if key.endswith("rotary_emb.inv_freq"):
                continue
            raise checkpoint.unfit(f"has {key}, which this head does not know; expected: {', '.join(wanted)}")
        if tuple(tensor.shape) != expected:
            raise checkpoint.unfit(f"{key} has shape {list(tensor.shape)}, expected {list(expected)}")
        if key in wanted and tensor.is_floating_point() != (key not in TOKEN_TABLES):
            allowed = "whole numbers" if key in TOKEN_TABLES else "floating-point numbers"
            raise checkpoint.unfit(f"{key} holds {tensor.dtype}, expected {allowed}")
        if key in wanted and not tensor.isfinite().all():
            raise checkpoint.unfit(
                f"{key} holds NaN or infinite numbers; the file is damaged or its training failed"
            )
    g = target.geometry
    state = {key: _placed(tensors[key], g.device, g.dtype) for key in wanted}
    module.load_state_dict(state, assign=True)
    module.eval().requires_grad_(False)


def _placed(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else tensor.dtype, copy=True)


def _is_there(checkpoint: Checkpoint, option: str, tensors: Mapping[str, Tensor], key: str) -> bool:
    """Whether a head has biases: as its configuration says, else as its file shows."""
    said = checkpoint.config.get(option)
    return said if isinstance(said, bool) else key in tensors


def _is_number(part: str) -> bool:
    # More digits than any file has heads.
    return part.isdecimal() and len(part) < 6


def _midlayer(key: str) -> str:
    return f"midlayer.{key.removeprefix('layers.0.')}" if key.startswith("layers.0.") else key


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose block has an object of its own, as one."""
    block = document.get("transformer_layer_config")
    inner = block if isinstance(block, Mapping) else {}
    return dict(inner) | {key: value for key, value in document.items() if value is not None}


def _eagle3_sizes(checkpoint: Checkpoint, document: Mapping[str, Any]) -> dict[str, Any]:
    options = document.get("eagle_config")
    options = dict(document) | (dict(options) if isinstance(options, Mapping) else {})
    if options.get("use_aux_hidden_state") is False:
        raise checkpoint.unfit(
            "its config.json says use_aux_hidden_state = false; such heads are not supported"
        )
    if options.get("norm_before_fc"):
        raise checkpoint.unfit("its config.json says norm_before_fc = true; such heads are not supported")
    if document.get("target_hidden_size", document.get("hidden_size")) != document.get("hidden_size"):
        raise checkpoint.unfit(
            "its target_hidden_size differs from its hidden_size; such heads are not supported"
        )
    drafted = document.get("draft_vocab_size", 0)
    taps = options.get("eagle_aux_hidden_state_layer_ids")
    whole = (drafted, *(taps or ())) if isinstance(taps, list | None) else (None,)
    if not all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in whole):
        raise checkpoint.unfit(
            f"its config.json says draft_vocab_size = {drafted!r}, eagle_aux_hidden_state_layer_ids = {taps!r}; "
            "allowed: a number, and a list of block numbers"
        )
    return {
        "draft_vocab_size": drafted,
        "taps": tuple(taps) if taps else None,
        "norm_before_residual": bool(options.get("norm_before_residual", False)),
    }


def _check_target(checkpoint: Checkpoint, config: EagleConfig, target: TargetModel) -> None:
    for name, given, wanted in (
        ("hidden_size", config.hidden_size, _width(target)),
        ("vocab_size", config.vocab_size, target.vocabulary_size),
    ):
        if given != wanted:
            raise checkpoint.unfit(f"its {name} is {given}, the target's {wanted}; it is of another target")


def _drafted(d2t: Tensor, vocab_size: int) -> Tensor:
    """Which of the target's tokens [vocab_size] (bool) a head with this ``d2t`` can draft."""
    return torch.isin(torch.arange(vocab_size), d2t.flatten() + torch.arange(d2t.numel()))


def _check_vocabulary(head: Eagle3Head, checkpoint: Checkpoint) -> None:
    if head.d2t is None or head.t2d is None:
        return
    tokens = head.target_tokens(torch.arange(len(head.d2t), device=head.d2t.device))
    size = head.config.vocab_size
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
        raise checkpoint.unfit(f"d2t leads to tokens outside of the target's vocabulary (0..{size - 1})")
    if not bool(head.t2d.bool()[tokens].all()):
        raise checkpoint.unfit("d2t and t2d contradict each other")


def _width(target: TargetModel) -> int:
    return int(target.model.config.hidden_size)
