"""The key that signs cookies, kept in a file that only its owner can read.

``python -m web.secret FILE`` makes one where there is none.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path

from skipmap.errors import InvalidInput

DEFAULT_FILE = "secret-key"
_BYTES = 32


def read_or_make(path: Path) -> str:
    """The key in the file, which is made where there is none; raises InvalidInput for one that is too short."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _make(path)
    key = path.read_text(encoding="ascii", errors="replace").strip()
    if len(key) < _BYTES:
        raise InvalidInput(
            "SKIPMAP_SECRET_KEY_FILE", f"{path} holds {len(key)} characters; it must hold at least {_BYTES}"
        )
    return key


def _make(path: Path) -> None:
    if path.exists():
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(_BYTES) + "\n")
        # The first process that has one whole file sets it for all.
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()


if __name__ == "__main__":
    read_or_make(Path(sys.argv[1]))
