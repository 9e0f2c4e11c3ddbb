"""Local files that models are read from: only below the configured model folders."""

from __future__ import annotations

from pathlib import Path

from skipmap.errors import InvalidInput, NotFound
from skipmap.target.hub import is_hub_id


def inside(path: Path, roots: tuple[Path, ...]) -> bool:
    """Whether a path lies in one of the folders, links followed; any does where there are none."""
    return not roots or any(path.resolve().is_relative_to(root) for root in roots)


def local_path(given: str, roots: tuple[Path, ...], field: str, allowed: str) -> Path | None:
    """The existing path that a name means, or None when it can only be a hub id.

    Raises InvalidInput naming ``field`` for a path outside of the folders, NotFound for one that is not there;
    ``allowed`` says what may be given.
    """
    try:
        path = Path(given).expanduser().absolute()
        is_inside = inside(path, roots)
        exists = is_inside and path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(field, f"{given!r} is no usable path: {error}") from None
    if exists:
        return path
    may_be_hub = is_hub_id(given) and path.suffix.lower() != ".gguf"
    if may_be_hub:
        return None
    if not is_inside:
        # Whether the path exists is not told: outside the roots that is nobody's business.
        folders = ", ".join(map(str, roots))
        raise InvalidInput(field, f"{given} lies outside the model folders ({folders}; SKIPMAP_MODEL_ROOTS)")
    raise NotFound(f"{field}: {given} does not exist; give {allowed}")
