"""``skipmap models``: the known targets and what this machine has of them."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from skipmap.errors import SkipmapError
from skipmap.settings import get_settings
from skipmap.target.families import SUPPORTED
from skipmap.target.known import KNOWN_TARGETS, locate_known


def run(arguments: Namespace) -> int:
    """List known names with where they are, or how to get them."""
    cache = get_settings().cache
    found = {name: _state(name, cache) for name in sorted(KNOWN_TARGETS)}
    if arguments.json:
        print(json.dumps({"known": found, "architectures": sorted(SUPPORTED.values())}))
        return 0
    for name, state in found.items():
        print(f"{name}: {state['path'] or state['missing']}")
    print(
        f"Any directory, .gguf file or hub id of these architectures: {', '.join(sorted(SUPPORTED.values()))}"
    )
    return 0


def _state(name: str, cache: Path) -> dict[str, str | None]:
    try:
        return {"path": str(locate_known(name, cache)), "missing": None}
    except SkipmapError as error:
        return {"path": None, "missing": str(error)}
