"""The disk copy of a client's map: one small file, whole or not there at all."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skipmap.canonical import digest

try:
    import fcntl
except ImportError:
    # Windows has other locks.
    fcntl = None  # type: ignore[assignment]

SCHEMA: Literal["skipmap.node-copy/1"] = "skipmap.node-copy/1"
_MAX_BYTES = 64 * 2**20
_LOCK_SECONDS = 2.0
_YEAR_10000 = 253_402_300_800


class DiskFault(Exception):
    """A disk copy cannot be read or written; the message names the file and the reason."""


@dataclass(frozen=True)
class DiskCopy:
    """What is kept. ``fetched_at``: seconds since 1970, by the clock of this machine.

    ``envelope`` is as the service sent it; no map of a sequence below ``highest_sequence`` may ever be used.
    """

    envelope: bytes
    fetched_at: float
    highest_sequence: int


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    schema_: Literal["skipmap.node-copy/1"] = Field(SCHEMA, alias="schema")
    envelope: str
    fetched_at: float = Field(ge=0, lt=_YEAR_10000)
    highest_sequence: int = Field(ge=0)
    check: str

    def expected_check(self) -> str:
        return digest(self.model_dump(exclude={"check"}, by_alias=True))


class DiskStore:
    """Where one client keeps its copy. Several processes may share it: each replaces the file as a whole."""

    def __init__(self, folder: Path, server: str, map_name: str, channel: str) -> None:
        key = hashlib.sha256("\n".join((server, map_name, channel)).encode()).hexdigest()[:12]
        readable = "".join(c if c.isalnum() or c in "-_" else "_" for c in f"{map_name}.{channel}"[:80])
        self.path = folder.expanduser().absolute() / f"{readable}.{key}.json"

    def read(self) -> DiskCopy | None:
        """The copy, None when there is none; raises DiskFault when it cannot be read or was changed."""
        try:
            with self.path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DiskFault(f"the disk copy {self.path} cannot be read: {error.strerror or error}") from error
        try:
            found = _File.model_validate_json(data)
            envelope = base64.b64decode(found.envelope, validate=True)
        except (ValidationError, ValueError):
            raise DiskFault(f"the disk copy {self.path} is damaged; it is not used") from None
        if found.check != found.expected_check():
            raise DiskFault(f"the disk copy {self.path} is damaged (its check sum differs); it is not used")
        return DiskCopy(envelope, found.fetched_at, found.highest_sequence)

    def write(self, copy: DiskCopy, *, may_go_back: bool = False) -> None:
        """Replace the copy, unless another process has put a later one there.

        ``may_go_back``: replace a later one, too, whose signature is not trusted.

        Raises DiskFault when the disk refuses; the copy that was there is then still whole.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _only_one(self.path.parent):
                self._write(copy, may_go_back)
        except OSError as error:
            raise DiskFault(
                f"the disk copy {self.path} cannot be written: {error.strerror or error}; without it a restart "
                "while the service is away begins dense"
            ) from error

    def _write(self, copy: DiskCopy, may_go_back: bool) -> None:
        with contextlib.suppress(DiskFault):
            there = self.read()
            if there is not None and there.highest_sequence > copy.highest_sequence and not may_go_back:
                return
        fields = {
            "schema": SCHEMA,
            "envelope": base64.b64encode(copy.envelope).decode(),
            "fetched_at": copy.fetched_at,
            "highest_sequence": copy.highest_sequence,
        }
        data = _File.model_validate({**fields, "check": digest(fields)}).model_dump_json(by_alias=True)
        replace_file(self.path, data.encode())


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Between a look at what is there and its replacement no other process writes; where files can be locked."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A process that was frozen with the lock must not hold up the others for ever.
        end = time.monotonic() + _LOCK_SECONDS
        while fcntl is not None and time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, so that it outlives a power cut; raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    # The new name itself is on the disk only once its folder is; not every file system can do that.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
