"""From the name of a target to a loaded model.

A name is resolved once to a directory with safetensors weights; everything after that reads this directory only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from skipmap.errors import InvalidInput, ModelFailure, choices
from skipmap.settings import Settings, get_settings
from skipmap.target.fingerprint import fingerprint_directory, fingerprint_files, model_files
from skipmap.target.gguf import convert_gguf
from skipmap.target.hub import fetch_snapshot, is_hub_id
from skipmap.target.known import KNOWN_TARGETS, locate_known
from skipmap.target.paths import inside, local_path
from skipmap.target.quiet import quiet_transformers

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class ResolvedTarget:
    """A target found: where its files are and what they are.

    ``revision``: commit of a hub model, else None. ``source``: where the id led to.
    """

    id: str
    revision: str | None
    directory: Path
    fingerprint: str
    source: Literal["known", "directory", "gguf", "hub"]


def resolve_target(
    target_id: str, revision: str | None = None, settings: Settings | None = None
) -> ResolvedTarget:
    """Find a target by known name, path (directory or GGUF file) or hub id, in this order.

    A GGUF file is converted on first use. Raises InvalidInput, NotFound, Refused or ModelFailure.
    """
    settings = settings or get_settings()
    if not target_id.strip() or "\0" in target_id:
        raise InvalidInput("target", f"{target_id!r} names nothing; give {_allowed()}")
    known = target_id in KNOWN_TARGETS
    path = None if known else local_path(target_id, settings.model_roots, "target", _allowed())
    if revision is not None and (known or path is not None):
        raise InvalidInput("revision", f"{revision!r} given, but {target_id} is no hub model; leave it out")
    if known:
        return _from_gguf(target_id, locate_known(target_id, settings.cache), settings, "known")
    if path is None:
        return _from_hub(target_id, revision, settings)
    if path.is_dir():
        _check_directory(path, settings.model_roots)
        fingerprint = fingerprint_directory(path, settings.cache)
        return ResolvedTarget(target_id, None, path, fingerprint, "directory")
    if path.suffix.lower() != ".gguf":
        raise InvalidInput("target", f"{path} is neither a directory nor a .gguf file; give {_allowed()}")
    return _from_gguf(target_id, path, settings, "gguf")


def load_config(resolved: ResolvedTarget) -> PreTrainedConfig:
    """Read a target's configuration alone; raises InvalidInput when transformers cannot make sense of it."""
    try:
        with quiet_transformers():
            config: PreTrainedConfig = AutoConfig.from_pretrained(
                resolved.directory, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:
        raise InvalidInput("target", f"{resolved.id} cannot be loaded: {error}") from error
    return config


def load_model(resolved: ResolvedTarget, dtype: str = "auto", device: str = "auto") -> PreTrainedModel:
    """Load a causal LM in evaluation mode, without gradients.

    ``dtype`` auto: float32 on CPU, bfloat16 on CUDA (float16 where the GPU lacks it). ``device`` auto: CUDA if there
    is one, else CPU. Raises InvalidInput for a bad dtype, device or unfit files, ModelFailure when loading fails.
    """
    place = resolve_device(device)
    kind = resolve_dtype(dtype, place)
    loader: Any = AutoModelForCausalLM
    try:
        with quiet_transformers():
            model, report = loader.from_pretrained(
                resolved.directory,
                dtype=kind,
                attn_implementation="sdpa",
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                device_map=None if place.type == "cpu" else {"": place},
                # Refused below, with the tensors' names.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except (ValueError, ImportError) as error:
        raise InvalidInput("target", f"{resolved.id} cannot be loaded: {error}") from error
    except Exception as error:
        raise ModelFailure(
            f"target: loading {resolved.id} from {resolved.directory} failed: {error}; "
            "if its files are damaged, fetch them again"
        ) from error
    _refuse_random_weights(
        resolved, {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    )
    loaded: PreTrainedModel = model.eval().requires_grad_(False)
    return loaded


def load_tokenizer(resolved: ResolvedTarget) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a resolved target.

    Raises InvalidInput when the directory has none that can be loaded.
    """
    try:
        with quiet_transformers():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                resolved.directory, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:
        raise InvalidInput("target", f"the tokenizer of {resolved.id} cannot be loaded: {error}") from error
    return tokenizer


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None) -> frozenset[int]:
    """All token ids that end an answer, from generation config, config and tokenizer."""
    text_config = model.config.get_text_config()
    found: set[int] = set()
    for holder in (model.generation_config, model.config, text_config, tokenizer):
        ids = getattr(holder, "eos_token_id", None)
        found.update([ids] if isinstance(ids, int) else ids or ())
    return frozenset(found)


def resolve_device(device: str) -> torch.device:
    """The torch device for ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Raises InvalidInput for others and for a GPU that is not there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except RuntimeError:
        place = None
    if place is None or place.type not in ("cpu", "cuda"):
        raise InvalidInput("device", f"{device!r} given; allowed: auto, cpu, cuda, cuda:N")
    count = torch.cuda.device_count()
    if place.type == "cuda" and (place.index or 0) >= count:
        raise InvalidInput(
            "device", f"{device!r} given, but torch sees {count} CUDA devices; use auto or cpu"
        )
    return place


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The torch dtype for ``auto``, ``float32``, ``bfloat16`` or ``float16`` on a device.

    Raises InvalidInput for others.
    """
    if dtype == "auto":
        if device.type == "cpu":
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if dtype not in DTYPES:
        raise InvalidInput("dtype", f"{dtype!r} given; allowed: {choices(['auto', *DTYPES])}")
    return DTYPES[dtype]


def _allowed() -> str:
    return f"a known name ({choices(KNOWN_TARGETS)}), a directory, a .gguf file or a hub id (owner/name)"


def _from_gguf(
    target_id: str, path: Path, settings: Settings, source: Literal["known", "gguf"]
) -> ResolvedTarget:
    directory = convert_gguf(path, settings.cache)
    return ResolvedTarget(target_id, None, directory, fingerprint_files([path], settings.cache), source)


def _from_hub(target_id: str, revision: str | None, settings: Settings) -> ResolvedTarget:
    if not is_hub_id(target_id):
        raise InvalidInput("target", f"{target_id!r} does not fit; give {_allowed()}")
    directory = fetch_snapshot(target_id, revision)
    _check_directory(directory, ())
    fingerprint = fingerprint_directory(directory, settings.cache)
    return ResolvedTarget(target_id, directory.name, directory, fingerprint, "hub")


def _check_directory(directory: Path, roots: tuple[Path, ...]) -> None:
    """Raise InvalidInput unless the directory can be loaded without running anything or leaving the roots."""
    if not (directory / "config.json").is_file():
        raise InvalidInput("target", f"{directory} has no config.json, so it is no model directory")
    if (directory / "adapter_config.json").exists():
        raise InvalidInput("target", f"{directory} holds an adapter; merge it into its model first")
    files = model_files(directory)
    if not any(file.suffix == ".safetensors" for file in files):
        pickled = sorted(
            file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in directory.glob(pattern)
        )
        found = f" (only {pickled[0]}, which can run code when loaded)" if pickled else ""
        raise InvalidInput(
            "target", f"{directory} has no *.safetensors weights{found}; save the model as safetensors first"
        )
    for file in files:
        if not inside(file, roots):
            raise InvalidInput("target", f"{file} is a link that leaves the model folders; copy the file in")
    _check_shards(directory, {file.name for file in files})


def _check_shards(directory: Path, present: set[str]) -> None:
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        return
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InvalidInput("target", f"{index} cannot be read: {error}") from None
    missing = sorted(str(shard) for shard in shards if shard not in present)
    if missing:
        raise InvalidInput("target", f"{directory} lacks the weight file {missing[0]} that its index names")


def _refuse_random_weights(resolved: ResolvedTarget, lost: set[str]) -> None:
    if lost:
        names = ", ".join(sorted(lost)[:5])
        raise InvalidInput(
            "target",
            f"{resolved.id} lacks weights for {len(lost)} tensors ({names}); the files are not complete, "
            "or config.json is of another model",
        )
