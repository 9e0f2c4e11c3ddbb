"""Checkpoints: folders with ``config.json`` and weights that are no model of their own, such as draft heads.

Pickled weights are read as bare tensors only, so that nothing of a file runs.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from skipmap.errors import InvalidInput, choices
from skipmap.settings import Settings, get_settings
from skipmap.target.fingerprint import fingerprint_files
from skipmap.target.hub import fetch_snapshot, is_hub_id
from skipmap.target.paths import inside, local_path

MODEL_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Names of weight files in the order in which they are looked for; each may be split, with an index beside it."""

_PATTERNS = ("config.json", "*.safetensors", "*.bin", "*.pt", "*.index.json")
_ALLOWED = "a folder or a hub id (owner/name)"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint found; its weights are read when they are asked for.

    ``field``: what errors name; ``name``: as it was given; ``config``: its ``config.json``; ``fingerprint``: sha256
    over configuration and weights.
    """

    field: str
    name: str
    config: Mapping[str, Any]
    files: tuple[Path, ...]
    fingerprint: str

    def tensors(self, prefix: str = "") -> dict[str, Tensor]:
        """Tensors whose keys start with ``prefix``, by the rest of the key; on the CPU, in the file's type.

        Raises InvalidInput for a file that cannot be read.
        """
        found: dict[str, Tensor] = {}
        for file in self.files:
            for key, tensor in self._read(file, prefix):
                if key in found:
                    raise self.unfit(f"{key} is in two of its files")
                found[key] = tensor
        return found

    def unfit(self, problem: str) -> InvalidInput:
        """The error that names this checkpoint."""
        return InvalidInput(self.field, f"{self.name}: {problem}")

    def _read(self, file: Path, prefix: str) -> Iterator[tuple[str, Tensor]]:
        try:
            if file.suffix == ".safetensors":
                with safe_open(file, framework="pt") as stored:
                    for key in stored.keys():  # noqa: SIM118
                        if key.startswith(prefix):
                            yield key.removeprefix(prefix), stored.get_tensor(key)
                return
            loaded = _unpickled(file)
        except (
            OSError,
            RuntimeError,
            EOFError,
            ValueError,
            SafetensorError,
            pickle.UnpicklingError,
        ) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise self.unfit(f"{file.name} cannot be read: {reason}") from None
        if not isinstance(loaded, Mapping) or not all(isinstance(x, Tensor) for x in loaded.values()):
            raise self.unfit(f"{file.name} holds more than named tensors")
        for key, tensor in loaded.items():
            if str(key).startswith(prefix):
                yield str(key).removeprefix(prefix), tensor


def open_checkpoint(
    given: str,
    field: str,
    revision: str | None = None,
    names: Sequence[str] = MODEL_WEIGHTS,
    settings: Settings | None = None,
) -> Checkpoint:
    """Find a checkpoint by path or hub id; its weights are the first of ``names`` that is there, whole or split.

    ``field``: the parameter that ``given`` is the value of, for errors. Raises InvalidInput, NotFound, Refused or
    ModelFailure.
    """
    settings = settings or get_settings()
    if not given.strip() or "\0" in given:
        raise InvalidInput(field, f"{given!r} names nothing; give {_ALLOWED}")
    folder = local_path(given, settings.model_roots, field, _ALLOWED)
    roots = settings.model_roots
    if folder is None:
        if not is_hub_id(given):
            raise InvalidInput(field, f"{given!r} does not fit; give {_ALLOWED}")
        folder, roots = fetch_snapshot(given, revision, _PATTERNS, field), ()
    elif revision is not None:
        raise InvalidInput(
            f"{field.rpartition('.')[0]}.revision",
            f"{revision!r} given, but {given} is no hub id; leave it out",
        )
    if not folder.is_dir():
        raise InvalidInput(field, f"{given} is no folder; give {_ALLOWED}")
    files = _weights(folder, names, field)
    for file in (folder / "config.json", *files):
        if not file.is_file():
            raise InvalidInput(field, f"{given} lacks the file {file.name}")
        if not inside(file, roots):
            raise InvalidInput(field, f"{file} is a link that leaves the model folders; copy the file in")
    config = _json(folder / "config.json", field)
    fingerprint = fingerprint_files([folder / "config.json", *files], settings.cache)
    return Checkpoint(field, given, config, files, fingerprint)


def _weights(folder: Path, names: Sequence[str], field: str) -> tuple[Path, ...]:
    for name in names:
        index = folder / f"{name}.index.json"
        if index.is_file():
            shards = _json(index, field).get("weight_map")
            if not isinstance(shards, Mapping) or not shards:
                raise InvalidInput(field, f"{index} has no weight_map")
            parts = sorted({str(part) for part in shards.values()})
            for part in parts:
                # An index may name any path.
                if Path(part).name != part or not part.endswith((".safetensors", ".bin", ".pt")):
                    raise InvalidInput(field, f"{index} names {part!r}, which is no weight file beside it")
            return tuple(folder / part for part in parts)
        if (folder / name).is_file():
            return (folder / name,)
    raise InvalidInput(field, f"{folder} has no weights; looked for: {choices(names)}")


def _json(file: Path, field: str) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(field, f"{file} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(field, f"{file} holds no object")
    return found


def _unpickled(file: Path) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        # Files of old versions of torch cannot be mapped.
        return torch.load(file, map_location="cpu", weights_only=True)
