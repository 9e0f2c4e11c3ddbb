"""Places on the server's disk that a request may name: model folders that the settings allow, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from skipmap.errors import InvalidInput


def allowed_path(given: str, roots: Sequence[Path], field: str) -> str:
    """The real path of a file or folder inside one of the roots.

    Raises InvalidInput for everything else: relative paths, paths that lead out of the roots by ``..`` or by a link,
    and paths that do not exist. Outside the roots it is not told whether something exists.
    """
    if not roots:
        raise InvalidInput(
            field, f"{given!r} is a path, and this server reads none; it has no SKIPMAP_MODEL_ROOTS"
        )
    if not os.path.isabs(given):
        raise InvalidInput(
            field, f"{given!r} is no absolute path; give one inside the server's model folders"
        )
    real = os.path.realpath(given)
    if not any(Path(real).is_relative_to(root) for root in roots):
        raise InvalidInput(field, f"{given!r} lies outside the server's model folders (SKIPMAP_MODEL_ROOTS)")
    if not os.path.exists(real):
        raise InvalidInput(field, f"{given!r} does not exist on the server")
    return real
