"""Values that several commands read from the command line."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from rich.errors import NotRenderableError

from skipmap.errors import InvalidInput, ModelFailure

_BLOCK_BYTES = 4096


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


def require_writable(path: Path, option: str, inputs: Iterable[Path] = ()) -> Path:
    """Fail before the work, not after it, when a file could not be written; leaves nothing behind.

    ``inputs``: files that are read, so writing there would destroy them. Raises InvalidInput for a path that is no
    place for a file, ModelFailure when the disk refuses.
    """
    if "\0" in str(path):
        raise InvalidInput(option, f"{str(path)!r} holds a NUL character; give another name")
    try:
        if path.is_dir():
            raise InvalidInput(option, f"{path} is a folder; give a file")
        if path.exists() and not path.is_file():
            raise InvalidInput(option, f"{path} is a device or a pipe, which would be replaced; give a file")
        if path.exists() and any(other.exists() and path.samefile(other) for other in inputs):
            raise InvalidInput(option, f"{path} is what is read; give another file")
        _probe(path.absolute())
    except OSError as error:
        raise ModelFailure(f"{option}: cannot write {path}: {error.strerror}; choose another place") from None
    return path


@contextlib.contextmanager
def complete(name: str) -> Iterator[None]:
    """Turn what goes wrong while a document is used into one message: parts of it are missing or changed."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        StopIteration,
        ArithmeticError,
        NotRenderableError,
        TemplateError,
    ) as error:
        problem = f"cannot be used ({type(error).__name__}: {error}); it was changed or is not complete"
        raise InvalidInput(name, f"{problem}, so write it again with `skipmap profile`") from error


def _probe(path: Path) -> None:
    """Write a block into the nearest folder that exists, and remove it; a full disk takes empty files."""
    place = next(folder for folder in path.parents if folder.exists())
    probe = place / f".{path.name}.{os.getpid()}.partial"
    try:
        probe.write_bytes(bytes(_BLOCK_BYTES))
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def _scalar(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_plain = value is None or isinstance(value, (bool, int, str)) or _is_finite(value)
    return value if is_plain else text


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
