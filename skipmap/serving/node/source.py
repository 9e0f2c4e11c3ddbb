"""Where a node's map comes from: a MapClient that follows a channel, a file, or nowhere."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from skipmap import __version__
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.channel import read_payload
from skipmap.maps.document import digest_of
from skipmap.maps.envelope import MAX_ENVELOPE_BYTES, open_envelope
from skipmap.maps.keys import TrustedKeys
from skipmap.maps.schema import MAX_DOCUMENT_BYTES, MapDocument, read_map
from skipmap.maps.strict import read_json
from skipmap.serving.map_client import Counters
from skipmap.serving.report import DomainCounters, NodeReport, NodeState

NO_MAP = "none"
FILE_CHANNEL = "file"
_REPORT_SECONDS = 60.0


class Active(Protocol):
    """A map in use."""

    @property
    def document(self) -> MapDocument:
        """What it says."""
        ...

    @property
    def version(self) -> int | None:
        """Its number; None for a local file."""
        ...

    @property
    def sequence(self) -> int | None:
        """The channel's move that brought it; None for a file."""
        ...


class MapSource(Protocol):
    """What a node asks for its map; a MapClient is one. Nothing here blocks or raises."""

    @property
    def current(self) -> Active | None:
        """The map in use."""
        ...

    def status(self) -> NodeReport:
        """State of the map and of the node."""
        ...


@dataclass(frozen=True)
class FixedMap:
    """A map that stays."""

    document: MapDocument
    digest: str
    version: int | None = None
    sequence: int | None = None
    channel: str = FILE_CHANNEL
    expires_at: datetime | None = None


def _no_counters(version: int | None) -> dict[str, DomainCounters]:
    return {}


@dataclass
class FixedSource:
    """A map read from a file once, or no map at all."""

    map: FixedMap | None = None
    on_expired: Literal["keep", "dense"] = "keep"
    node: str = field(default_factory=socket.gethostname)
    fingerprint: str | None = None
    counters: Counters = _no_counters
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def current(self) -> FixedMap | None:
        """The map in use."""
        is_over = self._state() == "EXPIRED" and self.on_expired == "dense"
        return None if is_over else self.map

    def status(self) -> NodeReport:
        """State of the map and of the node."""
        found, state = self.map, self._state()
        reasons = {
            "NONE": "no map is given; everything runs dense",
            "EXPIRED": f"the envelope has expired; policy: {self.on_expired}",
        }
        return NodeReport(
            node=self.node,
            map=found.document.name if found else NO_MAP,
            channel=found.channel if found else NO_MAP,
            version=found.version if found else None,
            sequence=found.sequence if found else None,
            digest=found.digest if found else None,
            state=state,
            reason=reasons.get(state, "read from a file"),
            since=self.since,
            fetched_at=None,
            poll_seconds=_REPORT_SECONDS,
            target_fingerprint=self.fingerprint,
            software=f"skipmap/{__version__}",
            domains=self.counters(found.version if found else None),
        )

    def _state(self) -> NodeState:
        if self.map is None:
            return "NONE"
        expires = self.map.expires_at
        return "EXPIRED" if expires is not None and datetime.now(UTC) >= expires else "FRESH"


def read_map_file(path: Path, trusted: TrustedKeys | None = None) -> FixedMap:
    """A map document, or a channel's envelope whose signature a trusted key must have made.

    Raises NotFound, InvalidInput or Refused (bad signature).
    """
    name = "--map-file"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{name}: no file {str(path)!r}") from None
    except OSError as error:
        raise InvalidInput(name, f"cannot read {path}: {error.strerror}") from None
    found = read_json(data, str(path), max(MAX_ENVELOPE_BYTES, MAX_DOCUMENT_BYTES))
    if not (isinstance(found, dict) and "payloadType" in found):
        document = read_map(data, str(path))
        return FixedMap(document, digest_of(data), document.version)
    if trusted is None:
        raise InvalidInput(
            name, f"{path} is a signed envelope; give --keys, so that its signature can be checked"
        )
    payload = read_payload(open_envelope(data, trusted, str(path)), str(path))
    return FixedMap(
        payload.map_document(str(path)),
        payload.digest,
        payload.version,
        payload.sequence,
        payload.channel,
        payload.expires_at,
    )


def check_fits(found: FixedMap, fingerprint: str, num_layers: int) -> FixedMap:
    """Return the map if it is of this target; raises InvalidInput otherwise."""
    target = found.document.target
    if target.fingerprint != fingerprint:
        raise InvalidInput(
            "--map-file", f"was made for another model ({target.id}); its fingerprint is not this target's"
        )
    if target.num_layers != num_layers:
        raise InvalidInput("--map-file", f"is of {target.num_layers} layers and the target has {num_layers}")
    return found
