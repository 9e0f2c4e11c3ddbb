"""Header of a GGUF file: its metadata and tensor names, without reading weights.

Arrays (vocabularies, merges) are walked over, not kept, so a header reads in a fraction of a second.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skipmap.errors import InvalidInput

Value = int | float | bool | str

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


@dataclass(frozen=True)
class GgufHeader:
    """Scalar metadata by key, and the names of the tensors."""

    metadata: dict[str, Value]
    tensors: frozenset[str]

    @property
    def architecture(self) -> str:
        """Name of the architecture, such as ``llama``; empty when the file names none."""
        return str(self.metadata.get("general.architecture", ""))


def read_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF file.

    Raises InvalidInput when the file is no readable GGUF.
    """
    try:
        with path.open("rb") as stream:
            return _Reader(stream, path.stat().st_size).header()
    except (struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput("target", f"{path} is no readable GGUF file ({error}); fetch it again") from None
    except OSError as error:
        raise InvalidInput("target", f"{path} cannot be read: {error}") from None


class _Reader:
    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size

    def header(self) -> GgufHeader:
        if self._take(4) != _MAGIC:
            raise ValueError("it does not start with GGUF")
        version = self._scalar("<I")
        if version not in _VERSIONS:
            raise ValueError(f"format version {version}; versions 2 and 3, little-endian, can be read")
        n_tensors, n_values = self._count(), self._count()
        metadata: dict[str, Value] = {}
        for _ in range(n_values):
            key = self._string()
            value = self._value(int(self._scalar("<I")))
            if value is not None:
                metadata[key] = value
        return GgufHeader(metadata, frozenset(self._tensor_name() for _ in range(n_tensors)))

    def _take(self, n: int) -> bytes:
        data = self._stream.read(n)
        if len(data) < n:
            raise ValueError("it ends too early")
        return data

    def _scalar(self, layout: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return value

    def _count(self) -> int:
        count = int(self._scalar("<Q"))
        if count > self._size:
            raise ValueError("a length in it is larger than the file")
        return count

    def _string(self) -> str:
        return self._take(self._count()).decode()

    def _value(self, kind: int) -> Value | None:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            self._skip_array()
            return None
        return self._scalar(_SCALARS[kind])

    def _skip_array(self) -> None:
        kind, count = int(self._scalar("<I")), self._count()
        if kind == _STRING:
            for _ in range(count):
                self._take(self._count())
        elif kind == _ARRAY:
            for _ in range(count):
                self._skip_array()
        else:
            self._take(count * struct.calcsize(_SCALARS[kind]))

    def _tensor_name(self) -> str:
        name = self._string()
        dimensions = int(self._scalar("<I"))
        self._take(8 * dimensions + 4 + 8)
        return name
