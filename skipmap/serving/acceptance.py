"""Whether a signed envelope may be acted on: all checks in one place, as a function of what is given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skipmap.errors import InvalidInput
from skipmap.maps.channel import ChannelPayload, channel_etag, read_payload
from skipmap.maps.envelope import BadSignature, open_envelope
from skipmap.maps.keys import TrustedKeys
from skipmap.maps.router import NAME_PATTERN
from skipmap.maps.schema import MapDocument
from skipmap.serving.trust import KeyRing

ANY_TARGET = "any"
"""Given as fingerprint: maps of every model are taken."""

_LONGEST_FINGERPRINT = 128


@dataclass(frozen=True)
class ActiveMap:
    """A map that has passed all checks. ``digest``: of the stored bytes of the version.

    ``etag``: what the service calls this answer. It follows from what was signed: a header could say anything.
    """

    document: MapDocument
    version: int
    sequence: int
    digest: str
    expires_at: datetime
    etag: str


@dataclass(frozen=True)
class Expectation:
    """What an envelope must be. ``num_layers`` None: any number, which goes with ``ANY_TARGET`` only."""

    map: str
    channel: str
    ring: KeyRing
    fingerprint: str
    num_layers: int | None

    @classmethod
    def of(
        cls,
        map_name: str,
        channel: str,
        trusted_keys: TrustedKeys | Path | str | None,
        fingerprint: str | None,
        num_layers: int | None,
    ) -> Expectation:
        """From what a caller gives; raises InvalidInput with the way out when a check would be left out silently."""
        for field, name in (("map", map_name), ("channel", channel)):
            if not re.fullmatch(NAME_PATTERN, name):
                raise InvalidInput(field, f"must match {NAME_PATTERN} (given: {name[:80]!r})")
        if not fingerprint or len(fingerprint) > _LONGEST_FINGERPRINT:
            raise InvalidInput(
                "fingerprint",
                f"is not given; give the target's own, or {ANY_TARGET!r} to take maps of every model",
            )
        if num_layers is None and fingerprint != ANY_TARGET:
            raise InvalidInput(
                "num_layers",
                f"is not given; give the target's own, or fingerprint={ANY_TARGET!r} to take any",
            )
        return cls(map_name, channel, KeyRing.of(trusted_keys), fingerprint, num_layers)


@dataclass(frozen=True)
class Floor:
    """The highest sequence that was ever accepted, and the digest that it had."""

    sequence: int = 0
    digest: str | None = None


@dataclass(frozen=True)
class Refusal:
    """Why an envelope is not acted on. ``kind``: the check, one word."""

    kind: str
    reason: str


def accept(data: bytes, expected: Expectation, floor: Floor, now: float | None) -> ActiveMap | Refusal:
    """Check an envelope. ``now``: seconds since 1970; None leaves the expiry to the caller."""
    try:
        payload = read_payload(open_envelope(data, expected.ring.keys))
    except BadSignature as error:
        return Refusal("signature", str(error))
    except InvalidInput as error:
        return Refusal("digest" if error.field.endswith(".digest") else "envelope", str(error))
    # Before the document is parsed: what was replayed or belongs elsewhere is named as such.
    refusal = _check_channel(payload, expected) or _check_sequence(payload, floor)
    if refusal is None and now is not None:
        refusal = _check_expiry(payload, now)
    if refusal is not None:
        return refusal
    try:
        document = payload.map_document()
    except InvalidInput as error:
        return Refusal("schema", str(error))
    # Computed here and now, the sets are there for all threads, and for children of a fork, without a lock.
    for domain in document.domains:
        document.skip_for(domain)
    refusal = _check_target(document, expected)
    return refusal or ActiveMap(
        document, payload.version, payload.sequence, payload.digest, payload.expires_at, _etag(payload)
    )


def is_signed(data: bytes, expected: Expectation) -> bool:
    """Whether a key that is trusted now has signed an envelope."""
    try:
        open_envelope(data, expected.ring.keys)
    except (BadSignature, InvalidInput):
        return False
    return True


def time_text(moment: datetime | float) -> str:
    """A time as messages show it."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _etag(payload: ChannelPayload) -> str:
    return channel_etag(payload.channel, payload.sequence, payload.expires_at, payload.digest)


def _check_channel(payload: ChannelPayload, expected: Expectation) -> Refusal | None:
    for name, found, wanted in (
        ("map", payload.map, expected.map),
        ("channel", payload.channel, expected.channel),
    ):
        if found != wanted:
            return Refusal(name, f"it is of the {name} {found!r}; this node follows {wanted!r}")
    return None


def _check_sequence(payload: ChannelPayload, floor: Floor) -> Refusal | None:
    if payload.sequence < floor.sequence:
        return Refusal(
            "sequence",
            f"its sequence {payload.sequence} is lower than {floor.sequence}, which this node has accepted before: an "
            "old answer was replayed. If the service itself was set up anew, remove the node's disk copy and restart",
        )
    if payload.sequence == floor.sequence and floor.digest not in (None, payload.digest):
        return Refusal(
            "sequence", f"it gives the sequence {payload.sequence} to another version than it did before"
        )
    return None


def _check_expiry(payload: ChannelPayload, now: float) -> Refusal | None:
    if now < payload.expires_at.timestamp():
        return None
    return Refusal(
        "expired",
        f"it expired at {time_text(payload.expires_at)}; the clock of this machine says {time_text(now)}",
    )


def _check_target(document: MapDocument, expected: Expectation) -> Refusal | None:
    target = document.target
    if expected.fingerprint not in (ANY_TARGET, target.fingerprint):
        return Refusal(
            "target",
            f"it is of another model: {target.id} ({target.fingerprint[:16]}), but this node runs "
            f"{expected.fingerprint[:16]}",
        )
    if expected.num_layers not in (None, target.num_layers):
        return Refusal(
            "layers",
            f"it is of a model with {target.num_layers} blocks, but this node runs one with {expected.num_layers}",
        )
    return None
