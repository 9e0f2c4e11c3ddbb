"""The signing key of the process: read when it is first needed, and again when its file has changed."""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from api.problems import UNAVAILABLE, ProblemError
from skipmap.errors import SkipmapError
from skipmap.maps.keys import SigningKeys

_Stamp = tuple[int, int, int, int]
_log = structlog.get_logger(__name__)


class Signer:
    """Keys from a private file, which may come, change and go while the process runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[_Stamp, SigningKeys] | None = None
        self._told = ""

    def usable(self) -> SigningKeys | None:
        """The keys; None while there is no file that can be used, which the log tells once."""
        try:
            stamp = _stamp(self._path)
            known = self._known
            if known is not None and known[0] == stamp:
                return known[1]
            keys = SigningKeys.read(self._path)
            # One assignment, so that requests beside this one see the old pair or the new one.
            self._known, self._told = (stamp, keys), ""
            _log.info("signing keys read", key_ids=list(keys.key_ids))
        except (SkipmapError, OSError) as error:
            self._known = None
            if self._told != str(error):
                self._told = str(error)
                _log.warning("channels cannot be signed", cause=self._told)
            return None
        return keys

    def keys(self) -> SigningKeys:
        """The keys; raises ProblemError without any."""
        keys = self.usable()
        if keys is None:
            # The log names the file; whoever asks has no business with places on the server's disk.
            raise ProblemError(
                UNAVAILABLE,
                "this server has no signing key that it can use; whoever runs it makes one with `skipmap keys new`, or "
                "names its file with SKIPMAP_SIGNING_KEY_FILE (the server's log tells more)",
            )
        return keys


def _stamp(path: Path) -> _Stamp:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
