"""What ``skipmap profile`` leaves in its run folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def run_folder():
    """The one run folder of this test."""
    (folder,) = Path("runs").iterdir()
    return folder


def stored(folder):
    """Number of finished groups of each kind on disk."""
    return Counter(file.name.split("-")[0] for file in (folder / "groups").glob("*.json"))


def written(folder):
    """When each file of a group was written."""
    return {file.name: file.stat().st_mtime_ns for file in (folder / "groups").glob("*.json")}
