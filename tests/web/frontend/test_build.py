"""The build: what the last one has made stays for pages that are open."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.web.frontend.gallery import FRONTEND


class Folder:
    """A copy of the sources beside the packages that are installed."""

    def __init__(self, place: Path) -> None:
        self.source, self.dist = place / "frontend", place / "static" / "dist"
        self.source.mkdir()
        for name in ("build.mjs", "package.json"):
            shutil.copy(FRONTEND / name, self.source)
        shutil.copytree(FRONTEND / "src", self.source / "src")
        (self.source / "node_modules").symlink_to(FRONTEND / "node_modules")

    def build(self, text: str) -> set[str]:
        """Build with this text in the main script; returns the names of what was made."""
        script = self.source / "src" / "app.js"
        kept = (FRONTEND / "src" / "app.js").read_text()
        script.write_text(f"{kept}\nconsole.debug({json.dumps(text)});\n")
        node = shutil.which("node")
        assert node is not None
        subprocess.run([node, "build.mjs"], cwd=self.source, check=True, capture_output=True, timeout=120)
        return set(json.loads((self.dist / "manifest.json").read_text()).values())

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.dist.iterdir()} - {"manifest.json", "earlier.json"}

    @property
    def earlier(self) -> set[str]:
        return set(json.loads((self.dist / "earlier.json").read_text()))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    if shutil.which("node") is None:
        pytest.skip("no Node on PATH")
    return Folder(tmp_path)


def test_the_last_build_stays_and_the_one_before_it_goes(folder: Folder):
    first = folder.build("first")
    assert (folder.files, folder.earlier) == (first, set())
    second = folder.build("second")
    assert folder.earlier == first - second
    assert any(name.startswith("app-") for name in folder.earlier)
    assert folder.files == first | second
    # The same once more is no newer build.
    assert folder.build("second") == second
    assert (folder.files, folder.earlier) == (first | second, first - second)
    third = folder.build("third")
    assert (folder.files, folder.earlier) == (second | third, second - third)
    # Back to what is kept as earlier.
    assert folder.build("second") == second
    assert (folder.files, folder.earlier) == (second | third, third - second)
