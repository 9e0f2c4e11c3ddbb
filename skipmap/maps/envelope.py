"""DSSE envelopes: signatures over raw bytes, never over JSON that somebody wrote again."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import Field

from skipmap.canonical import canonical_json
from skipmap.errors import InvalidInput, Refused
from skipmap.maps.keys import SigningKeys, TrustedKeys
from skipmap.maps.schema import MAX_DOCUMENT_BYTES
from skipmap.maps.strict import Section, read_section

PAYLOAD_TYPE = "application/vnd.skipmap.channel+json"

MAX_PAYLOAD_BYTES = 2 * MAX_DOCUMENT_BYTES + 64 * 1024
"""A document as a JSON string at most doubles."""

MAX_ENVELOPE_BYTES = (MAX_PAYLOAD_BYTES + 2) // 3 * 4 + 64 * 1024
_MAX_SIGNATURES = 16
_MAX_KEY_ID_CHARACTERS = 128


class BadSignature(Refused):
    """No signature of a trusted key fits."""


class BadEnvelope(InvalidInput):
    """The envelope itself cannot be read."""


class _Signature(Section):
    keyid: str = Field(max_length=_MAX_KEY_ID_CHARACTERS)
    sig: str


class _Envelope(Section):
    payload_type: str = Field(alias="payloadType")
    payload: str
    signatures: Annotated[tuple[_Signature, ...], Field(min_length=1, max_length=_MAX_SIGNATURES)]


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, keys: SigningKeys) -> bytes:
    """The envelope (JSON) of a payload, signed by every key."""
    signatures = keys.sign(pae(PAYLOAD_TYPE, payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode("ascii"),
        "signatures": [
            {"keyid": keyid, "sig": base64.b64encode(sig).decode("ascii")} for keyid, sig in signatures
        ],
    }
    return canonical_json(envelope).encode()


def open_envelope(data: bytes, trusted: TrustedKeys, field: str = "envelope") -> bytes:
    """The payload of an envelope; one good signature of a trusted key suffices.

    Raises BadEnvelope when it cannot be read, BadSignature when no trusted key has signed it.
    """
    envelope, payload = _read(data, field)
    message = pae(envelope.payload_type, payload)
    for signature in envelope.signatures:
        if trusted.verify(signature.keyid, message, _decode(signature.sig, f"{field}.signatures")):
            return payload
    given = ", ".join(s.keyid for s in envelope.signatures if s.keyid.isalnum())
    if not {s.keyid for s in envelope.signatures} & set(trusted.key_ids):
        raise BadSignature(
            f"{field}: signed by {given or 'no known key'}, and none of these keys is trusted "
            f"({', '.join(trusted.key_ids) or 'no key is'})"
        )
    raise BadSignature(f"{field}: the signature of {given} does not fit; the envelope was changed on its way")


def peek(data: bytes, field: str = "envelope") -> tuple[bytes, tuple[str, ...]]:
    """Payload and key ids of an envelope, with NO signature checked: for showing, never for acting."""
    envelope, payload = _read(data, field)
    return payload, tuple(signature.keyid for signature in envelope.signatures)


def _read(data: bytes, field: str) -> tuple[_Envelope, bytes]:
    try:
        envelope = read_section(_Envelope, data, field, MAX_ENVELOPE_BYTES)
    except InvalidInput as error:
        raise BadEnvelope(error.field, error.problem) from None
    if envelope.payload_type != PAYLOAD_TYPE:
        raise BadEnvelope(
            f"{field}.payloadType", f"is {envelope.payload_type[:80]!r}; only {PAYLOAD_TYPE!r} is read"
        )
    return envelope, _decode(envelope.payload, f"{field}.payload")


def _decode(text: str, field: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadEnvelope(field, "is no standard base64 with padding") from None
    # Unused last bits would let two texts stand for the same bytes.
    if base64.b64encode(data) != text.encode():
        raise BadEnvelope(field, "is no standard base64 with padding")
    return data
