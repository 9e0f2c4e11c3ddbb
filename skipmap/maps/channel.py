"""What a channel hands out: the document of the version it points to, with sequence and expiry."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from skipmap.canonical import canonical_json
from skipmap.errors import InvalidInput
from skipmap.maps.document import digest_of
from skipmap.maps.envelope import MAX_PAYLOAD_BYTES
from skipmap.maps.router import Name
from skipmap.maps.schema import MapDocument, moment, read_map
from skipmap.maps.strict import Section, read_section

_ETAG_CHARACTERS = 32


def _utc(value: Any) -> datetime:
    if isinstance(value, str):
        value = moment(value)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("must be a date and time with its offset, as in 2026-01-31T12:00:00Z")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie in the years 1 to 9999 in UTC") from None


def _text(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Moment = Annotated[datetime, BeforeValidator(_utc), PlainSerializer(_text)]


class ChannelPayload(Section):
    """The signed content. ``document``: the stored text of the version, whose UTF-8 bytes ``digest`` is of.

    ``sequence`` grows with every move of the channel, also with a roll-back to an older version.
    """

    map: Name
    channel: Name
    sequence: int = Field(ge=1, lt=2**63)
    version: int = Field(ge=1, lt=2**31)
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    issued_at: Moment
    expires_at: Moment
    document: str

    def to_bytes(self) -> bytes:
        """The bytes to sign."""
        return canonical_json(self.model_dump(mode="json")).encode()

    def map_document(self, field: str = "document") -> MapDocument:
        """The map inside; raises InvalidInput when it is none, or not the version that the payload names."""
        found = read_map(self.document.encode(), field)
        for name, inside, outside in (
            ("name", found.name, self.map),
            ("version", found.version, self.version),
        ):
            if inside != outside:
                raise InvalidInput(f"{field}.{name}", f"is {inside!r}, but the channel speaks of {outside!r}")
        return found


def read_payload(data: bytes, field: str = "payload") -> ChannelPayload:
    """Read an opened payload; raises InvalidInput also when the digest is not the document's."""
    payload = read_section(ChannelPayload, data, field, MAX_PAYLOAD_BYTES)
    found = digest_of(payload.document.encode())
    if found != payload.digest:
        raise InvalidInput(f"{field}.digest", f"is {payload.digest}, but the document has {found}")
    if payload.expires_at <= payload.issued_at:
        raise InvalidInput(f"{field}.expires_at", "must be after issued_at")
    return payload


def channel_etag(channel: str, sequence: int, expires_at: datetime, digest: str) -> str:
    """Strong ETag of what a channel hands out; it changes with every move and with every later expiry."""
    over = canonical_json([channel, sequence, _text(expires_at), digest])
    return f'"{hashlib.sha256(over.encode()).hexdigest()[:_ETAG_CHARACTERS]}"'


def sequence_etag(sequence: int) -> str:
    """ETag of a channel's place among its moves, for If-Match."""
    return f'"seq-{sequence}"'
