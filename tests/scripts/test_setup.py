"""Set-up goes on where something is missing, and ends at once where nothing is."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("setup", "frontend", "commands")


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module, on a machine where all but the steps under test is done."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    module = importlib.import_module("setup")
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    monkeypatch.setattr(module, "alone", nullcontext)
    monkeypatch.setattr(module, "_is_installed", lambda: True)
    monkeypatch.setattr(module, "_is_ready", lambda model: True)
    yield module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("is_built", [True, False])
def test_the_pages_are_built_when_they_are_not(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, is_built: bool
):
    builds: list[None] = []
    monkeypatch.setattr(setup.frontend, "is_built", lambda: is_built)
    monkeypatch.setattr(setup.frontend, "build", lambda: builds.append(None))
    assert setup.main() == 0
    assert len(builds) == (0 if is_built else 1)


def test_a_failure_is_told_without_a_traceback(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail() -> None:
        raise setup.SetupFailed("no network")

    monkeypatch.setattr(setup.frontend, "is_built", lambda: False)
    monkeypatch.setattr(setup.frontend, "build", fail)
    assert setup.main() == 1
    assert capsys.readouterr().err == "Set-up stopped: no network\n"


def test_a_source_distribution_holds_all_that_set_up_reads(setup: ModuleType):
    """It leaves out what is built, so it must be able to build."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    sdist = targets.get("sdist", {})
    read = [
        *setup.frontend._sources(),
        *(ROOT / "scripts").glob("*.py"),
        *(ROOT / name for name in ("Makefile", "constraints.txt", "README.md")),
    ]
    names = [f"/{path.relative_to(ROOT)}" for path in read]

    def taken(name: str) -> bool:
        within = [name, *(f"/{parent}" for parent in Path(name[1:]).parents)]
        chosen = sdist.get("include", [name])
        return bool(set(within) & set(chosen)) and not set(within) & set(sdist.get("exclude", []))

    assert [name for name in names if not taken(name)] == []
    ignored = (ROOT / ".gitignore").read_text().split()
    assert [name for name in names if any(f"{part}/" in ignored for part in Path(name).parts)] == []


def test_the_extras_that_it_installs_are_declared(setup: ModuleType):
    text = (ROOT / "scripts" / "setup.py").read_text(encoding="utf-8")
    extras = text.split('".[')[1].split("]")[0].split(",")
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [name for name in extras if f"\n{name} = [" not in declared] == []
