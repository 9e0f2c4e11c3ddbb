"""Head checkpoints of the published layouts with random weights, written down key by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

H, V, M, A, KV, D = 32, 97, 48, 4, 2, 8
"""Width, vocabulary, MLP, heads, key/value heads and head width: those of the tiny models."""

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": H,
    "intermediate_size": M,
    "max_position_embeddings": 256,
    "model_type": "llama",
    "num_attention_heads": A,
    "num_hidden_layers": 1,
    "num_key_value_heads": KV,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "vocab_size": V,
}


def eagle(seed: int = 0, *, bias: bool = True, qkv: bool = False) -> dict[str, Tensor]:
    """EAGLE-1/2."""
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (V, H),
        "fc.weight": (H, 2 * H),
        "layers.0.self_attn.q_proj.weight": (A * D, H),
        "layers.0.self_attn.k_proj.weight": (KV * D, H),
        "layers.0.self_attn.v_proj.weight": (KV * D, H),
        "layers.0.self_attn.o_proj.weight": (H, A * D),
        "layers.0.mlp.gate_proj.weight": (M, H),
        "layers.0.mlp.up_proj.weight": (M, H),
        "layers.0.mlp.down_proj.weight": (H, M),
        "layers.0.post_attention_layernorm.weight": (H,),
    }
    if bias:
        shapes["fc.bias"] = (H,)
    if qkv:
        shapes |= {
            f"layers.0.self_attn.{p}_proj.bias": (w * D,) for p, w in zip("qkv", (A, KV, KV), strict=True)
        }
    return _random(shapes, seed)


def eagle3(seed: int = 0, *, drafted: int = 40) -> dict[str, Tensor]:
    """EAGLE-3; every second token can be drafted, as far as they go."""
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (H, 3 * H),
        "midlayer.self_attn.q_proj.weight": (A * D, 2 * H),
        "midlayer.self_attn.k_proj.weight": (KV * D, 2 * H),
        "midlayer.self_attn.v_proj.weight": (KV * D, 2 * H),
        "midlayer.self_attn.o_proj.weight": (H, A * D),
        "midlayer.mlp.gate_proj.weight": (M, H),
        "midlayer.mlp.up_proj.weight": (M, H),
        "midlayer.mlp.down_proj.weight": (H, M),
        "midlayer.hidden_norm.weight": (H,),
        "midlayer.input_layernorm.weight": (H,),
        "midlayer.post_attention_layernorm.weight": (H,),
        "norm.weight": (H,),
        "lm_head.weight": (drafted, H),
    }
    tensors = _random(shapes, seed)
    if drafted != V:
        tensors["d2t"] = torch.arange(drafted)
        tensors["t2d"] = (torch.arange(V) % 2 == 0) & (torch.arange(V) < 2 * drafted)
    return tensors


def medusa(seed: int = 0, *, heads: int = 4, blocks: int = 1) -> dict[str, Tensor]:
    """Medusa heads alone."""
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(heads):
        for block in range(blocks):
            shapes[f"{head}.{block}.linear.weight"] = (H, H)
            shapes[f"{head}.{block}.linear.bias"] = (H,)
        shapes[f"{head}.{blocks}.weight"] = (V, H)
    return _random(shapes, seed)


def _random(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {
        key: torch.randn(shape, generator=rng) * 0.3 + (1.0 if "norm" in key else 0.0)
        for key, shape in shapes.items()
    }


def _as_safetensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, folder / "model.safetensors")


def _as_bin(folder: Path, tensors: dict[str, Tensor]) -> None:
    torch.save(tensors, folder / "pytorch_model.bin")


def _as_old_bin(folder: Path, tensors: dict[str, Tensor]) -> None:
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def _sharded(folder: Path, tensors: dict[str, Tensor], name: str, suffix: str) -> None:
    places = {key: f"{name}-0000{1 + at % 2}-of-00002.{suffix}" for at, key in enumerate(tensors)}
    for file in set(places.values()):
        part = {key: tensor for key, tensor in tensors.items() if places[key] == file}
        if suffix == "safetensors":
            save_file(part, folder / file)
        else:
            torch.save(part, folder / file)
    index = json.dumps({"metadata": {}, "weight_map": places})
    (folder / f"{name}.{suffix}.index.json").write_text(index)


def _as_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    _sharded(folder, tensors, "model", "safetensors")


def _as_bin_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    _sharded(folder, tensors, "pytorch_model", "bin")


Writer = Callable[[Path, dict[str, Tensor]], None]

FILES: dict[str, Writer] = {
    "safetensors": _as_safetensors,
    "bin": _as_bin,
    "old bin": _as_old_bin,
    "shards": _as_shards,
    "bin shards": _as_bin_shards,
}


def write(
    folder: Path,
    tensors: dict[str, Tensor],
    config: Mapping[str, Any] | None = None,
    files: str = "safetensors",
) -> str:
    """Write a checkpoint of EAGLE; its name."""
    folder.mkdir(parents=True, exist_ok=True)
    FILES[files](folder, tensors)
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(config or {})))
    return str(folder)


def write_medusa(folder: Path, tensors: dict[str, Tensor], file: str = "medusa_lm_head.pt") -> str:
    """Write Medusa heads alone; the name of their folder. Published configurations name other numbers of heads."""
    folder.mkdir(parents=True, exist_ok=True)
    if file.endswith(".pt"):
        torch.save(tensors, folder / file)
    else:
        save_file(tensors, folder / file)
    config = {
        "medusa_num_heads": 2,
        "medusa_num_layers": 1,
        "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)
