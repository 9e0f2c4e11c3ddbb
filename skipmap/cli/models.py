"""``skipmap models``: the known targets and what this machine has of them."""

from __future__ import annotations

import json
from argparse import Namespace

from skipmap.errors import SkipmapError
from skipmap.settings import get_settings
from skipmap.target.families import SUPPORTED
from skipmap.target.known import KNOWN_TARGETS, installed_files


def run(arguments: Namespace) -> int:
    """List known names with where they are, or how to get them."""
    get_settings()  # settings that cannot be used are told here too
    found = {name: _state(name) for name in sorted(KNOWN_TARGETS)}
    if arguments.json:
        print(json.dumps({"known": found, "architectures": sorted(SUPPORTED.values())}))
        return 0
    for name, state in found.items():
        print(f"{name}: {state['path'] or state['missing']}")
    print(
        f"Any directory, .gguf file or hub id of these architectures: {', '.join(sorted(SUPPORTED.values()))}"
    )
    return 0


def _state(name: str) -> dict[str, str | None]:
    try:
        return {"path": str(installed_files(name)[0]), "missing": None}
    except SkipmapError as error:
        return {"path": None, "missing": str(error)}
