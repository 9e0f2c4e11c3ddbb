"""Every draft method with what it needs to draft for a target of the tests, files of random content among it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from skipmap.drafts.base import DraftMethod, Resources
from skipmap.drafts.heads.config import Eagle3Config, EagleConfig
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.eagle3 import Eagle3Head
from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.drafts.heads.saving import save_eagle, save_medusa
from skipmap.drafts.registry import make_draft
from skipmap.target.loading import load_tokenizer, resolve_target
from skipmap.target.model import TargetModel

_FOLDER = TemporaryDirectory(prefix="skipmap-drafts-", ignore_cleanup_errors=True)

DRAWING = frozenset(
    {
        "bild",
        "clasp",
        "draft_model",
        "eagle",
        "early_exit",
        "knn_ssd",
        "layerskip",
        "self_skip",
        "specinfer",
        "staged",
        "swift",
    }
)
"""Methods that draw their tokens at a temperature above 0, so that a text is one of many with any of them."""


LOSSY = frozenset({"bild"})
"""Methods whose text is not the target's own."""

UNTAUGHT = frozenset({"eagle", "eagle2", "eagle3", "medusa"})
"""Methods whose heads are random here, so that large vocabularies keep them from ever being right."""

_SMALL: dict[str, dict[str, Any]] = {
    "bild": {"fallback_threshold": 0.1, "max_tokens": 3},
    "clasp": {"skip_layers": 2, "num_tokens": 3, "every": 2},
    "draft_model": {"num_tokens": 3},
    "eagle": {"max_nodes": 17},
    "eagle2": {"total_tokens": 20, "depth": 2, "top_k": 5},
    "eagle3": {"total_tokens": 20, "depth": 2, "top_k": 5},
    "early_exit": {"exits": "2,4,5", "threshold": 0.05, "num_tokens": 3},
    "knn_ssd": {"num_tokens": 3, "confidence": 0.1},
    "layerskip": {"exit_layer": 4, "num_tokens": 3},
    "medusa": {"max_nodes": 24},
    "self_skip": {"num_tokens": 3, "confidence": 0.1},
    "specinfer": {"widths": "2,1,2"},
    "staged": {"num_tokens": 4},
    "swift": {"window": 4, "num_tokens": 3, "confidence": 0.1, "bayes_every": 3},
}
"""Chains that are longer than one token, and short, on models whose random weights are sure of nothing."""


def ready_draft(
    name: str,
    target: TargetModel,
    params: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> DraftMethod:
    """A draft method for a target of at least 5 blocks; ``params`` go before those that it gets here.

    ``tokenizer``: of the target, where ``params`` name a model with one of its own.
    """
    files: dict[str, Any] = {}
    if name in _FILES:
        files = _FILES[name](target)
    elif name in _BESIDE and tokenizer is None:
        folder = _dense_copy(target)
        files, tokenizer = {_BESIDE[name]: folder}, _tokenizer_in(folder)
    given = {**_SMALL.get(name, {}), **files, **(params or {})}
    return make_draft(name, given, Resources(None, target.num_layers, target, tokenizer))


_BESIDE = {"bild": "model", "draft_model": "model", "specinfer": "models", "staged": "model"}
"""Methods with a small model, and the parameter that names it."""

_saved: WeakKeyDictionary[TargetModel, str] = WeakKeyDictionary()


def _dense_copy(target: TargetModel) -> str:
    """Folder of the target's own model, as a small one beside it that skips nothing, with numbers as its tokens."""
    if target not in _saved:
        plain = deepcopy(target.model, {id(parameter): parameter for parameter in target.model.parameters()})
        plain.base_model.layers = torch.nn.ModuleList(bypass.block for bypass in plain.base_model.layers)
        words = {str(token): token for token in range(target.vocabulary_size)}
        core = Tokenizer(models.WordLevel(words, unk_token="0"))
        folder = mkdtemp(dir=_FOLDER.name)
        plain.save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=core, unk_token="0").save_pretrained(folder)
        _saved[target] = folder
    return _saved[target]


@cache
def _tokenizer_in(folder: str) -> PreTrainedTokenizerBase:
    # Some families add tokens of their own when a tokenizer is loaded.
    return load_tokenizer(resolve_target(folder))


def _head_folder(kind: str, target: TargetModel) -> tuple[Path, bool]:
    """Where a random head for targets of this size lies, and whether it is there already."""
    config = target.model.config
    sizes = (config.model_type, config.hidden_size, target.vocabulary_size, target.num_layers)
    folder = Path(_FOLDER.name, f"{kind}-{'-'.join(map(str, sizes))}")
    return folder, folder.exists()


def _eagle(target: TargetModel) -> dict[str, Any]:
    folder, is_there = _head_folder("eagle", target)
    if not is_there:
        with torch.random.fork_rng():
            torch.manual_seed(4)
            save_eagle(folder, EagleHead(EagleConfig.of_target(target.model.config)))
    return {"head": str(folder)}


def _eagle3(target: TargetModel) -> dict[str, Any]:
    folder, is_there = _head_folder("eagle3", target)
    if not is_there:
        drafted = min(2000, target.vocabulary_size - 1)
        config = Eagle3Config.of_target(target.model.config, draft_vocab_size=drafted)
        with torch.random.fork_rng():
            torch.manual_seed(6)
            head = Eagle3Head(config)
        folder.mkdir()
        save_file(head.state_dict(), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config.document()), encoding="utf-8")
    return {"head": str(folder)}


def _medusa(target: TargetModel) -> dict[str, Any]:
    folder, is_there = _head_folder("medusa", target)
    if not is_there:
        # A head is as large as the target's output layer.
        heads = 4 if target.vocabulary_size < 1000 else 1
        with torch.random.fork_rng():
            torch.manual_seed(6)
            made = MedusaHeads(target.model.config.hidden_size, target.vocabulary_size, heads)
        save_medusa(folder, made)
    return {"head": str(folder)}


def _anchors(target: TargetModel) -> dict[str, Any]:
    width, layers, draw = int(target.model.config.hidden_size), target.num_layers, random.Random(5)
    document = {
        "schema": "skipmap.anchors/1",
        "target": {"fingerprint": "f" * 64, "hidden_size": width, "num_layers": layers},
        "anchors": [
            {"label": label, "vector": [draw.gauss(0, 1) for _ in range(width)]} for label in ("a", "b", "b")
        ],
        "draft_skips": {"a": {"attention": [1, 3], "mlp": [2]}, "b": {"mlp": [1]}},
    }
    path = Path(_FOLDER.name, f"anchors-{width}-{layers}.json")
    path.write_text(json.dumps(document), encoding="utf-8")
    return {"anchors": str(path)}


_FILES: dict[str, Callable[[TargetModel], dict[str, Any]]] = {
    "eagle": _eagle,
    "eagle2": _eagle,
    "eagle3": _eagle3,
    "knn_ssd": _anchors,
    "medusa": _medusa,
}
