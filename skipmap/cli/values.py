"""Values that several commands read from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from skipmap.errors import InvalidInput, ModelFailure


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``K=V`` options as a dict; raises InvalidInput for one without ``=`` or given twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(option, f"{text!r} is not of the form name=value")
        if name in found:
            raise InvalidInput(option, f"{name!r} is given twice")
        found[name] = value
    return found


def parameters(texts: Iterable[str], option: str = "--draft-param") -> dict[str, Any]:
    """Like ``pairs``, with numbers, true, false and null read as such."""
    return {name: _scalar(value) for name, value in pairs(texts, option).items()}


def require_writable(path: Path, option: str) -> Path:
    """Fail before the work, not after it, when a file could not be written; leaves nothing behind."""
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidInput(option, f"{path} is a folder; give a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{path.name}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ModelFailure(f"{option}: cannot write {path}: {error.strerror}; choose another place") from None
    return path


def _scalar(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, (bool, int, float, str)) else text
