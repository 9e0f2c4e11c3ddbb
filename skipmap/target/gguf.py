"""GGUF files: converted once to a model directory that loads at once afterwards.

transformers reads the file and unpacks its weights to float32; what it would silently lose is refused here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

from skipmap.errors import InvalidInput, ModelFailure, choices
from skipmap.target.families import GGUF_ARCHITECTURES
from skipmap.target.fingerprint import file_sha256
from skipmap.target.gguf_header import GgufHeader, read_header
from skipmap.target.locks import exclusive, unusable_cache
from skipmap.target.quiet import quiet_transformers

_MARKER = "conversion.json"
_CONVERSION = 1
"""Raised when the conversion changes, so that older results are made again."""

_END_KEYS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")


def convert_gguf(path: Path, cache: Path) -> Path:
    """Directory with safetensors, config and tokenizer of a GGUF file, made on first use in ``cache``.

    Raises InvalidInput for a file that cannot be converted faithfully, ModelFailure when the cache cannot be written.
    """
    digest = file_sha256(path, cache)
    directory = cache / "targets" / f"{digest[:16]}-{_slug(path.stem)}"
    if _complete(directory):
        return directory
    header = read_header(path)
    _refuse_lossy(path, header)
    try:
        with exclusive(directory.with_name(f".{digest[:16]}.lock")):
            if not _complete(directory):
                _convert(path, header, directory)
    except (OSError, SafetensorError) as error:
        raise unusable_cache(directory, error) from error
    return directory


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80] or "model"


def _complete(directory: Path) -> bool:
    try:
        marker = json.loads((directory / _MARKER).read_text(encoding="utf-8"))
        return bool(marker["conversion"] == _CONVERSION and marker["files"] == _sizes(directory))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sizes(directory: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in directory.iterdir() if file.name != _MARKER}


def _refuse_lossy(path: Path, header: GgufHeader) -> None:
    metadata, architecture = header.metadata, header.architecture
    problem = None
    if not architecture:
        problem = "names no architecture"
    elif architecture not in GGUF_ARCHITECTURES:
        problem = (
            f"holds the architecture {architecture!r}; those that can run: {choices(GGUF_ARCHITECTURES)}"
        )
    elif metadata.get("general.type", "model") != "model":
        problem = f"holds a {metadata['general.type']}, not a model"
    elif int(metadata.get("split.count", 1)) > 1:
        problem = "is one piece of a split file; merge the pieces first (llama-gguf-split --merge)"
    elif "rope_freqs.weight" in header.tensors or _scales_rope(header):
        problem = (
            "scales its rotary positions, which conversion would lose; use the model's safetensors directory"
        )
    if problem:
        raise InvalidInput("target", f"{path} {problem}")


def _scales_rope(header: GgufHeader) -> bool:
    prefix = f"{header.architecture}.rope.scaling."
    kind = header.metadata.get(f"{prefix}type")
    # gpt-oss is the one architecture whose scaling transformers reads.
    return header.architecture != "gpt-oss" and kind not in (None, "none")


def _convert(path: Path, header: GgufHeader, directory: Path) -> None:
    targets = directory.parent
    prefix = f".making-{directory.name}-"
    for leftover in targets.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    workspace = Path(tempfile.mkdtemp(prefix=prefix, dir=targets))
    try:
        draft = workspace / directory.name
        draft.mkdir()
        _write_model(_alone(path, workspace), header, draft)
        marker = {"conversion": _CONVERSION, "source": path.name, "files": _sizes(draft)}
        (draft / _MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
        _settle(draft)
        shutil.rmtree(directory, ignore_errors=True)
        draft.replace(directory)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _alone(path: Path, workspace: Path) -> Path:
    # transformers also looks at a file's neighbours, which may belong to another model.
    folder = workspace / "source"
    folder.mkdir()
    link = folder / "model.gguf"
    link.symlink_to(path.resolve())
    return link


def _write_model(path: Path, header: GgufHeader, draft: Path) -> None:
    model, tokenizer = _read_model(path)
    # The quantisation is gone with the unpacking; left in place it makes save_pretrained refuse.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.generation_config = _generation_config(model.generation_config, header)
    with quiet_transformers():
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)


def _read_model(path: Path) -> tuple[Any, Any]:
    loader: Any = AutoModelForCausalLM
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
            model, report = loader.from_pretrained(
                path.parent,
                gguf_file=path.name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
                output_loading_info=True,
            )
    except (ValueError, NotImplementedError, KeyError) as error:
        raise InvalidInput("target", f"{path.resolve()} cannot be converted: {error}") from error
    except Exception as error:
        raise ModelFailure(f"target: converting {path.resolve()} failed: {error}") from error
    lost = sorted(map(str, report["missing_keys"] | report["mismatched_keys"]))
    if lost:
        raise InvalidInput(
            "target", f"{path.resolve()} lacks weights that its architecture needs: {', '.join(lost[:5])}"
        )
    return model, tokenizer


def _generation_config(config: GenerationConfig, header: GgufHeader) -> GenerationConfig:
    ends = sorted({int(header.metadata[key]) for key in _END_KEYS if key in header.metadata})
    if ends:
        config.eos_token_id = ends if len(ends) > 1 else ends[0]
    return config


def _settle(draft: Path) -> None:
    # Weights come out private to their writer, but a cache may be shared: all files get the marker's mode. After a
    # power cut a renamed folder must not hold half-written files, hence the sync.
    mode = stat.S_IMODE((draft / _MARKER).stat().st_mode)
    for file in draft.iterdir():
        file.chmod(mode)
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
