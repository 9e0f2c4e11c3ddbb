"""The public keys that a node trusts; those of a file are read again when it changes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from skipmap.errors import InvalidInput, SkipmapError
from skipmap.maps.keys import TrustedKeys

_Stamp = tuple[int, int, int, int]
_log = logging.getLogger("skipmap.serving")


class KeyRing:
    """Keys from memory, or from a file that may be replaced while keys rotate.

    A file that cannot be used leaves the keys that were read before; the log tells once.
    """

    def __init__(self, keys: TrustedKeys, path: Path | None = None, stamp: _Stamp | None = None) -> None:
        self._path = path
        # One reference, so that any thread may read it.
        self._read = (stamp, keys)
        self._told = ""

    @classmethod
    def of(cls, given: TrustedKeys | Path | str | None) -> KeyRing:
        """From what a caller gives: keys, a file of them, or their PEM text.

        Raises InvalidInput when there is none, NotFound for a missing file.
        """
        if given is None:
            raise InvalidInput(
                "trusted_keys",
                "are not given, and unsigned maps are never used; give the file of public keys that lies beside the "
                "service's signing key (`skipmap keys new` writes it as <file>.pub)",
            )
        if isinstance(given, str) and "-----BEGIN" in given:
            given = TrustedKeys.of(given)
        if isinstance(given, TrustedKeys):
            ring = cls(given)
        else:
            path = Path(given).expanduser()
            # The stamp first: what is written in between is read the next time.
            stamp = _stamp(path)
            ring = cls(TrustedKeys.read(path), path, stamp)
        if not ring.keys.key_ids:
            raise InvalidInput("trusted_keys", "hold no key; give one public key at least")
        return ring

    @property
    def keys(self) -> TrustedKeys:
        """The keys to trust now."""
        stamp, keys = self._read
        if self._path is None:
            return keys
        found = _stamp(self._path)
        if found in (None, stamp):
            return keys
        try:
            fresh = TrustedKeys.read(self._path)
        except SkipmapError as error:
            if self._told != str(error):
                self._told = str(error)
                _log.warning("the keys stay as they were: %s", error)
            return keys
        self._read, self._told = (found, fresh), ""
        _log.info("trusted keys read again: %s", ", ".join(fresh.key_ids))
        return fresh


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
