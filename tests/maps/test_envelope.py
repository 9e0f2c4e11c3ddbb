from __future__ import annotations

import base64
import json
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from skipmap.errors import InvalidInput, Refused
from skipmap.maps.envelope import (
    MAX_ENVELOPE_BYTES,
    PAYLOAD_TYPE,
    BadEnvelope,
    BadSignature,
    open_envelope,
    pae,
    peek,
    seal,
)
from skipmap.maps.keys import SigningKeys, rotate

PAYLOAD = '{"map":"prod","text":"zwölf\\n"}'.encode()
KEYS = SigningKeys((Ed25519PrivateKey.from_private_bytes(bytes(range(32))),))
SEALED = seal(PAYLOAD, KEYS)
OTHER = SigningKeys((Ed25519PrivateKey.from_private_bytes(bytes(32)),))


def test_encoding_is_that_of_the_specification():
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    # Lengths are of bytes.
    assert pae("ä", b"") == "DSSEv1 2 ä 0 ".encode()


def test_envelope():
    envelope = json.loads(SEALED)
    assert envelope.keys() == {"payloadType", "payload", "signatures"}
    assert envelope["payloadType"] == PAYLOAD_TYPE == "application/vnd.skipmap.channel+json"
    assert base64.b64decode(envelope["payload"]) == PAYLOAD
    (signature,) = envelope["signatures"]
    assert signature["keyid"] == KEYS.key_ids[0]
    message = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(PAYLOAD), PAYLOAD)
    KEYS.keys[0].public_key().verify(base64.b64decode(signature["sig"]), message)
    assert open_envelope(SEALED, KEYS.trusted()) == PAYLOAD
    assert peek(SEALED) == (PAYLOAD, KEYS.key_ids)


@given(st.binary(max_size=300))
def test_any_payload_comes_back(payload):
    assert open_envelope(seal(payload, KEYS), KEYS.trusted()) == payload


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused(place, flip):
    changed = bytearray(SEALED)
    changed[place] ^= flip
    with pytest.raises((BadEnvelope, BadSignature)):
        open_envelope(bytes(changed), KEYS.trusted())


def test_every_flipped_bit_is_refused():
    for place in range(len(SEALED)):
        for bit in range(8):
            changed = bytearray(SEALED)
            changed[place] ^= 1 << bit
            with pytest.raises((BadEnvelope, BadSignature)):
                open_envelope(bytes(changed), KEYS.trusted())


@given(st.integers(0, len(SEALED) - 1))
def test_a_truncated_download_is_refused(length):
    with pytest.raises(BadEnvelope):
        open_envelope(SEALED[:length], KEYS.trusted())


def test_wrong_key():
    message = f"signed by {KEYS.key_ids[0]}, and none of these keys is trusted \\({OTHER.key_ids[0]}\\)"
    with pytest.raises(BadSignature, match=message):
        open_envelope(SEALED, OTHER.trusted())


def test_a_key_that_only_claims_to_be_trusted():
    forged = json.loads(seal(PAYLOAD, OTHER))
    forged["signatures"][0]["keyid"] = KEYS.key_ids[0]
    with pytest.raises(BadSignature, match="does not fit; the envelope was changed on its way"):
        open_envelope(json.dumps(forged).encode(), KEYS.trusted())


def test_one_good_signature_of_two_suffices(keys, tmp_path):
    both = rotate(tmp_path / "signing-key.pem")
    sealed = seal(PAYLOAD, both)
    assert [s["keyid"] for s in json.loads(sealed)["signatures"]] == list(both.key_ids)
    for trusted in (keys.trusted(), SigningKeys(both.keys[1:]).trusted(), both.trusted()):
        assert open_envelope(sealed, trusted) == PAYLOAD
    spoilt = json.loads(sealed)
    spoilt["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    assert open_envelope(json.dumps(spoilt).encode(), both.trusted()) == PAYLOAD
    with pytest.raises(BadSignature):
        open_envelope(json.dumps(spoilt).encode(), keys.trusted())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"payloadType": "application/vnd.in-toto+json"}, "envelope.payloadType"),
        ({"payloadType": None}, "envelope.payloadType"),
        ({"payload": "%%%"}, "envelope.payload"),
        ({"payload": "YQ"}, "envelope.payload"),
        ({"payload": "YR=="}, "envelope.payload"),
        ({"payload": "YQ==\n"}, "envelope.payload"),
        ({"payload": "-_-_"}, "envelope.payload"),
        ({"payload": "\u00e4"}, "envelope.payload"),
        ({"signatures": []}, "envelope.signatures"),
        ({"signatures": [{"sig": "YQ=="}]}, "envelope.signatures.0.keyid"),
        # It stands in messages, reports and logs.
        ({"signatures": [{"keyid": "k" * 129, "sig": "YQ=="}]}, "envelope.signatures.0.keyid"),
        ({"signatures": [{"keyid": "k", "sig": "YQ=="}] * 17}, "envelope.signatures"),
    ],
)
def test_envelopes_that_cannot_be_read(change, field):
    with pytest.raises(BadEnvelope) as caught:
        open_envelope(json.dumps(json.loads(SEALED) | change).encode(), KEYS.trusted())
    assert caught.value.field == field
    assert isinstance(caught.value, InvalidInput)


def test_size_is_capped():
    with pytest.raises(BadEnvelope, match=r"^envelope: has \d+ bytes; at most \d+ are read$"):
        open_envelope(b" " * (MAX_ENVELOPE_BYTES + 1), KEYS.trusted())


def test_the_largest_document_fits(keys):
    # Quotes double inside a JSON string.
    payload = json.dumps({"document": '"' * (4 * 1024 * 1024)}).encode()
    assert open_envelope(seal(payload, keys), keys.trusted()) == payload


def test_a_bad_signature_is_a_refusal():
    assert issubclass(BadSignature, Refused)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on PATH")
def test_openssl_alone_checks_the_signature(tmp_path):
    envelope = json.loads(SEALED)
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"]
    signed, signature, public = (tmp_path / name for name in ("signed", "signature", "keys.pub"))
    signed.write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    signature.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    public.write_text(KEYS.public_pem())

    def verify():
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", signed]
        return subprocess.run([*command, "-sigfile", signature], capture_output=True, text=True)

    assert (verify().returncode, verify().stdout.strip()) == (0, "Signature Verified Successfully")
    signed.write_bytes(signed.read_bytes() + b" ")
    assert verify().returncode != 0
