"""What a head's work folder is for: it takes up a run that was broken off, and never another one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skipmap.errors import InvalidInput
from skipmap.profiling.store import write_atomically

FIELD = "--out"
SHOWN = 3
"""Differences that a message names."""


def claim(folder: Path, run: Mapping[str, Any]) -> None:
    """Keep what the folder is for; raises InvalidInput for one that is for something else, or holds who knows what."""
    file = folder / "spec.json"
    if not file.exists():
        # Hidden files are those that were being written when a process was killed.
        left = sorted(path.name for path in folder.iterdir() if path.name != "lock" and path.name[0] != ".")
        if left:
            raise damaged(file, f"is missing, and {left[0]} is there")
        write_atomically(file, json.dumps(run, indent=2) + "\n")
        return
    try:
        stored = dict(_flat(json.loads(file.read_text(encoding="utf-8"))))
    except (ValueError, TypeError):
        raise damaged(file, "cannot be read") from None
    mine = dict(_flat(json.loads(json.dumps(run))))
    different = [name for name in sorted(stored.keys() | mine) if stored.get(name) != mine.get(name)]
    if different:
        told = "; ".join(
            f"{name} was {_said(stored, name)} and is now {_said(mine, name)}" for name in different[:SHOWN]
        )
        more = f"; and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
        raise InvalidInput(
            FIELD,
            f"{folder} holds another run: {told}{more}; give another folder, the same options, or --restart",
        )


def damaged(file: Path, problem: str) -> InvalidInput:
    """The error for a file of the folder that is not as it was left."""
    return InvalidInput(FIELD, f"{file} {problem}; give another folder, or --restart to begin anew")


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Values of nested objects by dotted names; raises TypeError where the outermost is none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif name:
        yield name, value
    else:
        raise TypeError("no object")


def _said(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "not there"
