"""Write heads in the published layouts: ``config.json`` and one safetensors file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from skipmap.drafts.checkpoints import MODEL_WEIGHTS
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.loading import MEDUSA_WEIGHTS
from skipmap.drafts.heads.medusa import MedusaHeads


def save_eagle(
    folder: Path,
    head: EagleHead,
    config: Mapping[str, Any] | None = None,
    embeddings: Tensor | None = None,
) -> Path:
    """Write an EAGLE-1/2 head; returns the folder, which is made if need be.

    ``config``: entries of ``config.json`` besides the sizes. ``embeddings`` [vocabulary, width]: the target's, for
    readers that want them in the file.
    """
    more = {} if embeddings is None else {"embed_tokens.weight": embeddings}
    return _save(folder, MODEL_WEIGHTS[0], head, more, head.config.document() | dict(config or {}))


def save_medusa(folder: Path, heads: MedusaHeads, config: Mapping[str, Any] | None = None) -> Path:
    """Write Medusa heads; returns the folder, which is made if need be.

    ``config``: entries of ``config.json`` besides the numbers of heads and blocks.
    """
    sizes = {"medusa_num_heads": len(heads), "medusa_num_layers": heads.blocks}
    return _save(folder, MEDUSA_WEIGHTS[0], heads, {}, sizes | dict(config or {}))


def _save(
    folder: Path, file: str, module: nn.Module, more: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in (*module.state_dict().items(), *more.items())
    }
    save_file(tensors, folder / file, metadata={"format": "pt"})
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    # The library keeps what it writes to its owner; whoever may read the configuration may read the weights.
    shutil.copymode(folder / "config.json", folder / file)
    return folder
