from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.envelope import PAYLOAD_TYPE, pae
from skipmap.maps.keys import SigningKeys
from skipmap.serving.acceptance import ActiveMap, Expectation, Floor, Refusal, accept
from skipmap.serving.trust import KeyRing
from tests.serving.channel_server import CHANNEL, FINGERPRINT, MAP, NUM_LAYERS, envelope, map_json, new_keys

KEYS = new_keys()
ISSUED = datetime(2026, 1, 2, tzinfo=UTC)
NOW = ISSUED.timestamp() + 60
NO_FLOOR = Floor()
EXPECTED = Expectation(MAP, CHANNEL, KeyRing(KEYS.trusted()), FINGERPRINT, NUM_LAYERS)


def _accept(data, expected=EXPECTED, floor=NO_FLOOR, now=NOW):
    return accept(data, expected, floor, now)


def _sealed(document=None, sequence=4, **changes):
    return envelope(KEYS, document or map_json(version=3), sequence, issued_at=ISSUED, **changes)


def _signed(payload: bytes, kind: str = PAYLOAD_TYPE, keys: SigningKeys = KEYS) -> bytes:
    """An envelope with a good signature over anything."""
    signatures = [
        {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
        for keyid, signature in keys.sign(pae(kind, payload))
    ]
    body = {"payloadType": kind, "payload": base64.b64encode(payload).decode(), "signatures": signatures}
    return json.dumps(body).encode()


def _payload(data: bytes) -> dict:
    return json.loads(base64.b64decode(json.loads(data)["payload"]))


def _refused(found, kind: str, *words: str) -> None:
    assert isinstance(found, Refusal), found
    assert found.kind == kind
    assert all(word in found.reason for word in words), found.reason


def test_a_good_envelope_is_taken_with_its_figures():
    found = _accept(_sealed())
    assert isinstance(found, ActiveMap)
    assert (found.version, found.sequence) == (3, 4)
    assert found.digest == _payload(_sealed())["digest"]
    assert found.document.skip_for("translation").to_list() == [2, 3]
    assert found.expires_at.timestamp() == ISSUED.timestamp() + 3600


def test_any_target_takes_every_model():
    other = map_json() | {"target": {"id": "x", "revision": None, "fingerprint": "a", "num_layers": 9}}
    assert isinstance(_accept(_sealed(other)), Refusal)
    anything = Expectation.of(MAP, CHANNEL, KEYS.trusted(), "any", None)
    assert isinstance(_accept(_sealed(other), anything), ActiveMap)


@pytest.mark.parametrize(
    ("data", "floor", "now", "kind", "words"),
    [
        (envelope(new_keys(), map_json(), issued_at=ISSUED), NO_FLOOR, NOW, "signature", ("trusted",)),
        (_signed(b"{}", "application/json"), NO_FLOOR, NOW, "envelope", ("payloadType",)),
        (_signed(b"[1]"), NO_FLOOR, NOW, "envelope", ()),
        (b"<html>it works</html>", NO_FLOOR, NOW, "envelope", ()),
        (b"", NO_FLOOR, NOW, "envelope", ()),
        (_sealed(digest="0" * 64), NO_FLOOR, NOW, "digest", ()),
        (_sealed(map="another"), NO_FLOOR, NOW, "map", ("another", MAP)),
        (_sealed(channel="canary"), NO_FLOOR, NOW, "channel", ("canary", CHANNEL)),
        (_sealed(), Floor(5), NOW, "sequence", ("4", "5", "replayed")),
        (_sealed(), Floor(4, "0" * 64), NOW, "sequence", ("another version",)),
        (_sealed(), NO_FLOOR, NOW + 3600, "expired", ("2026-01-02 01:00:00 UTC", "clock of this machine")),
        (_sealed(map_json() | {"schema": "skipmap.map/2"}), NO_FLOOR, NOW, "schema", ()),
        (_sealed(map_json(name="another")), NO_FLOOR, NOW, "schema", ("another",)),
        (_sealed(map_json(version=3), version=2), NO_FLOOR, NOW, "schema", ("version",)),
        (_sealed(map_json(skip=(9,))), NO_FLOOR, NOW, "schema", ("block 9",)),
        (
            _sealed(map_json(target={"id": "big", "fingerprint": "e" * 64, "num_layers": NUM_LAYERS})),
            NO_FLOOR,
            NOW,
            "target",
            ("another model", "big"),
        ),
        (
            _sealed(map_json(target={"id": "tiny", "fingerprint": FINGERPRINT, "num_layers": 30})),
            NO_FLOOR,
            NOW,
            "layers",
            ("30", str(NUM_LAYERS)),
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(data, floor, now, kind, words):
    _refused(_accept(data, floor=floor, now=now), kind, *words)


def test_a_roll_back_is_an_older_version_with_a_higher_sequence():
    assert isinstance(_accept(_sealed(map_json(version=1), sequence=9), floor=Floor(8, "0" * 64)), ActiveMap)
    same = _accept(_sealed(), floor=Floor(4, _payload(_sealed())["digest"]))
    assert isinstance(same, ActiveMap)


def test_while_keys_rotate_either_one_is_enough():
    new = new_keys()
    both = SigningKeys((*KEYS.keys, *new.keys))
    data = envelope(both, map_json(), issued_at=ISSUED)
    for keys in (KEYS, new, both):
        expected = Expectation(MAP, CHANNEL, KeyRing(keys.trusted()), FINGERPRINT, NUM_LAYERS)
        assert isinstance(_accept(data, expected), ActiveMap)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_changed_byte_changes_what_is_taken(data):
    """A byte that means nothing may change (the order of keys, a space); what is acted on may not."""
    good = _sealed()
    place = data.draw(st.integers(0, len(good) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != good[place]))
    found = _accept(good[:place] + bytes([other]) + good[place + 1 :])
    assert isinstance(found, Refusal) or found == _accept(good)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.integers(1, 2000).map(lambda cut: _sealed()[:-cut]))
def test_rubbish_is_refused_and_raises_nothing(data):
    assert isinstance(_accept(data), Refusal)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trusted_keys": None}, ("trusted_keys", "skipmap keys new", ".pub")),
        ({"trusted_keys": "insecure"}, ("insecure",)),
        ({"fingerprint": None}, ("fingerprint", "any")),
        ({"fingerprint": ""}, ("fingerprint", "any")),
        ({"num_layers": None}, ("num_layers", "any")),
        ({"map_name": "A/B"}, ("map", "A/B")),
        ({"channel": ""}, ("channel",)),
    ],
)
def test_no_check_is_left_out_silently(changes, words):
    given = {
        "map_name": MAP,
        "channel": CHANNEL,
        "trusted_keys": KEYS.trusted(),
        "fingerprint": FINGERPRINT,
        "num_layers": NUM_LAYERS,
    }
    with pytest.raises((InvalidInput, NotFound)) as caught:
        Expectation.of(**given | changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_trusted_keys_come_as_keys_file_or_text(tmp_path):
    file = tmp_path / "keys.pub"
    file.write_text(KEYS.public_pem())
    for keys in (KEYS.trusted(), file, str(file), KEYS.public_pem()):
        expected = Expectation.of(MAP, CHANNEL, keys, FINGERPRINT, NUM_LAYERS)
        assert expected.ring.keys.key_ids == KEYS.key_ids
