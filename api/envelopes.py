"""Envelopes as they go out: read once a revision, and sealed anew before nodes could take them for old."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from api.greenlets import aside
from api.problems import RETRY_SECONDS, UNAVAILABLE, ProblemError
from api.signing import Signer
from models.channels import Mark, find_envelope, find_mark, find_marks
from models.database import Database
from models.errors import Unavailable
from models.moves import is_due, seal_again
from skipmap.maps.channel import channel_etag

Place = tuple[str, str]
"""Map and channel."""

_MOST_KEPT_BYTES = 64 << 20
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """An envelope, plain and packed with gzip. ``etag``: without its quotes."""

    mark: Mark
    etag: str
    body: bytes
    packed: bytes

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.body) + len(self.packed)


class Envelopes:
    """The envelopes that a process hands out. The database has the last word: every fetch asks it for the revision."""

    def __init__(self, database: Database, signer: Signer, validity_seconds: float) -> None:
        self.validity_seconds = validity_seconds
        self.signer = signer
        self._database = database
        self._kept: dict[Place, Snapshot] = {}
        self._sealing: set[Place] = set()

    def current(self, map_name: str, channel: str) -> Snapshot:
        """What a channel hands out now, sealed anew when that is due.

        Raises NotFound, and ProblemError when the envelope has expired and cannot be sealed anew.
        """
        return self.snapshot(self._fresh(self._database.read(find_mark, map_name, channel)))

    def marks(self, places: Sequence[Place]) -> list[Mark]:
        """Where channels are, sealed anew when that is due; those that do not exist are left out."""
        found = []
        for mark in self._database.read(find_marks, places):
            # One that has expired, and that nobody here can seal, is no news.
            with suppress(ProblemError):
                found.append(self._fresh(mark))
        return found

    def snapshot(self, mark: Mark) -> Snapshot:
        """The envelope of this revision, or of a later one."""
        place = (mark.map_name, mark.channel)
        kept = self._kept.get(place)
        if kept is not None and (kept.mark.revision, kept.etag) == (mark.revision, _etag(mark)):
            return kept
        stored, text = self._database.read(find_envelope, *place)
        body = text.encode()
        # The same bytes in every process: no time of packing is in them.
        packed = aside(lambda: gzip.compress(body, mtime=0), len(body))
        made = Snapshot(stored, _etag(stored), body, packed)
        self._kept.pop(place, None)
        if sum(kept.size for kept in list(self._kept.values())) + made.size > _MOST_KEPT_BYTES:
            self._kept.clear()
        self._kept[place] = made
        return made

    def _fresh(self, mark: Mark) -> Mark:
        keys = self.signer.usable() if mark.is_valid else self.signer.keys()
        if keys is None or not is_due(mark, keys, self.validity_seconds):
            return mark
        place = (mark.map_name, mark.channel)
        if place in self._sealing and mark.is_valid:
            return mark
        self._sealing.add(place)
        try:
            if self._database.transaction(seal_again, keys, self.validity_seconds, mark):
                _log.info("channel sealed anew", map=mark.map_name, channel=mark.channel)
        except Unavailable:
            # A database that can only be read, say; what is valid is served meanwhile.
            if not mark.is_valid:
                raise
            return mark
        finally:
            self._sealing.discard(place)
        mark = self._database.read(find_mark, *place)
        if not mark.is_valid:
            raise ProblemError(
                UNAVAILABLE,
                "the channel's envelope has expired and could not be sealed anew; try again shortly",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        return mark


def _etag(mark: Mark) -> str:
    return channel_etag(mark.channel, mark.sequence, mark.expires_at, mark.digest).strip('"')
