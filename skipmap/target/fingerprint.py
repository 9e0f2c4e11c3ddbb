"""Fingerprint of a target: what its answers depend on, independent of where the files lie.

Sha256 over the sorted lines ``name size sha256``, joined by newlines, of config, generation config, tokenizer and
weight files. For a GGUF target the one line is that of the GGUF file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

CONFIG_FILES = ("config.json", "generation_config.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
WEIGHT_SUFFIXES = (".safetensors", ".safetensors.index.json")
UNWANTED_PREFIXES = ("consolidated", "adapter_")
"""A second copy of the weights in another layout, and adapters, which are no part of a target."""


def fingerprint_directory(directory: Path, cache: Path | None = None) -> str:
    """Fingerprint of a model directory; ``cache`` is where hashes of unchanged files are kept."""
    return fingerprint_files(model_files(directory), cache)


def fingerprint_files(files: Iterable[Path], cache: Path | None = None) -> str:
    """Fingerprint over the given files, whatever their folder and order."""
    lines = sorted(f"{file.name} {file.stat().st_size} {file_sha256(file, cache)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def model_files(directory: Path) -> list[Path]:
    """Files of a model directory that decide its answers, sorted by name."""
    named = {*CONFIG_FILES, *TOKENIZER_FILES}
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_file()
        and (path.name in named or path.name.endswith(WEIGHT_SUFFIXES))
        and not path.name.startswith(UNWANTED_PREFIXES)
    )


def file_sha256(path: Path, cache: Path | None = None) -> str:
    """Sha256 (hex) of a file's bytes.

    With ``cache`` the hash is kept there under path, size, times and inode, since weights are large. A cache
    that cannot be written only costs the time of hashing again.
    """
    path = path.resolve()
    stat = path.stat()
    entry = None if cache is None else _cache_entry(cache, path, stat)
    if entry is not None:
        known = _read_entry(entry)
        if known is not None:
            return known
    with path.open("rb") as stream:
        value = hashlib.file_digest(stream, "sha256").hexdigest()
    if entry is not None and _same(stat, path.stat()):
        with contextlib.suppress(OSError):
            _write_entry(entry, value)
    return value


def _cache_entry(cache: Path, path: Path, stat: os.stat_result) -> Path:
    key = f"{path}\n{stat.st_size}\n{stat.st_mtime_ns}\n{stat.st_ctime_ns}\n{stat.st_ino}"
    return cache / "sha256" / hashlib.sha256(os.fsencode(key)).hexdigest()


def _read_entry(entry: Path) -> str | None:
    try:
        text = entry.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    is_hash = len(text) == 64 and all(character in "0123456789abcdef" for character in text)
    return text if is_hash else None


def _write_entry(entry: Path, value: str) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    part = entry.with_name(f"{entry.name}.{os.getpid()}")
    try:
        part.write_text(value + "\n", encoding="ascii")
        part.replace(entry)
    finally:
        part.unlink(missing_ok=True)


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
