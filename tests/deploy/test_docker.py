from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"
LINES = re.sub(r"\\\n", " ", DOCKERFILE.read_text()).splitlines()
SOURCES = [
    source
    for line in LINES
    if line.startswith("COPY ") and "--from" not in line
    for source in line.split()[1:-1]
]


def _in_context(path: str) -> bool:
    """Whether .dockerignore lets a path through: the last pattern that fits it, or a folder above it, decides."""
    parts = Path(path).parts
    kept = True
    for pattern in (ROOT / ".dockerignore").read_text().splitlines():
        names = pattern.removeprefix("!").removeprefix("**/")
        if any(
            fnmatch(part, names) if "**/" in pattern else _fits(parts[: length + 1], names)
            for length, part in enumerate(parts)
        ):
            kept = pattern.startswith("!")
    return kept


def _fits(parts: tuple[str, ...], pattern: str) -> bool:
    wanted = Path(pattern).parts
    return len(wanted) == len(parts) and all(map(fnmatch, parts, wanted))


def _last(instruction: str) -> str:
    """The argument of the last such instruction, which is of the stage that becomes the image."""
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{instruction} ")][-1]


def test_hadolint_finds_nothing():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_copied_is_there_and_in_the_context(source: str):
    assert (ROOT / source).exists()
    assert _in_context(source)


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".venv/bin/python",
        "deploy/.env",
        "runs/demo/qa.json",
        "api/__pycache__/app.pyc",
        "tests",
    ],
)
def test_nothing_else_is_in_the_context(path: str):
    assert not _in_context(path)


def test_every_package_of_the_service_is_in_the_image():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert set(settings["root_packages"]) <= set(SOURCES)


def test_it_runs_under_an_init_without_a_shell_and_without_root():
    assert json.loads(_last("ENTRYPOINT"))[0] == "tini"
    assert json.loads(_last("CMD"))[0] == "gunicorn"
    assert int(_last("USER").split(":")[0]) > 0
    assert json.loads(_last("HEALTHCHECK").split(" CMD ")[1])[0] == "python"


def test_each_variant_has_a_stage_and_installs_the_pinned_torch():
    text = "\n".join(LINES)
    stages = set(re.findall(r"^FROM build AS torch-(\w+)$", text, re.MULTILINE))
    assert stages == {"cpu", "cuda"}
    assert text.count("grep '^torch==' constraints.txt") == len(stages)
    pins = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    # A local version such as +cpu would keep the CUDA build out.
    assert [re.fullmatch(r"[\d.]+", pin) is not None for pin in pins] == [True]
