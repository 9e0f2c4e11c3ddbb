from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from skipmap.errors import InvalidInput
from skipmap.maps.channel import read_payload
from skipmap.maps.document import local_digest
from skipmap.maps.envelope import open_envelope
from skipmap.maps.keys import TrustedKeys
from skipmap.maps.schema import read_map
from skipmap.skipset import SkipSet

DIGESTS = {
    "envelope.json": "3dd3b2b00ba1544c6b8386d85aa7019ffca6691aa3c98647044195f8b3e4b34d",
    "envelope.pub.pem": "256d99133e89d4b310ee2647817cdbbe9fffb112b46fd5d04d11bc8b990b74dd",
    "extra.json": "5c44f775d714090325d73264a9eaf0967e281a564f69f4535ebbc5447910618b",
    "full.json": "e52415c69e430fc94338bb1d2abe9e7022c577a049ce183946b36577096108e0",
    "local.json": "b8cefbd23e4ccf57c27951adb5a24f6b12abd4eb0c3e14efff4eba294308fe10",
    "minimal.json": "c0118a6789c38731c4a402705945560a8158a9dc414785c36f17c50472200ceb",
    "two_keys.json": "1c2a78f6180f98da7e5f85bd718a5fd29a52c64859593cc82ce1cbb6770dc132",
    "two_keys.pub.pem": "5b08af99ab74bd570ef1a103244c32d13768410940b6210c45acb9346a0d12af",
}
SKIPS = {"summarization": (0, 11, 29), "translation": (4,), "chat.v2_a-b": (), "elsewhere": (), None: ()}


def test_files_are_those_of_the_first_version(golden):
    assert {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in golden.iterdir()} == DIGESTS


def test_minimal(golden):
    document = read_map((golden / "minimal.json").read_bytes())
    assert (document.name, document.version, document.target.num_layers) == ("prod", 1, 1)
    assert document.skip_for("qa") == document.skip_for("rag") == document.skip_for(None) == SkipSet()
    assert (document.router, document.domains["qa"].alternatives, document.draft.params) == (None, (), {})


@pytest.mark.parametrize(
    ("name", "version", "has_router"),
    [("full.json", 7, True), ("extra.json", 8, True), ("local.json", None, False)],
)
def test_full_and_with_fields_of_later_releases(golden, name, version, has_router):
    data = (golden / name).read_bytes()
    document = read_map(data)
    assert (document.name, document.version) == ("prod", version)
    assert {domain: document.skip_for(domain).blocks for domain in SKIPS} == SKIPS
    summarization, translation = document.domains["summarization"], document.domains["translation"]
    assert [a.skip for a in summarization.alternatives] == [(11,), (11, 29)]
    assert summarization.held_out.intervals["speedup"] == (1.02, 1.1)
    assert (summarization.held_out.passes_gate, translation.held_out.passes_gate) == (True, False)
    assert document.draft.params == {
        "k": 8,
        "update": "accepted",
        "growth": 1.5,
        "carry": True,
        "corpus": None,
    }
    assert (document.router is not None) == has_router
    if document.router is not None:
        assert translation.override == "measured in production: no loss seen"
        assert document.router.domains["summarization"].centroids[0] == (0.5, -0.25, 0.001)
        assert document.router.confusion.counts["unknown"] == {"unknown": 30, "summarization": 1}
    else:
        assert local_digest(json.loads(data)) == document.digest


@pytest.mark.parametrize("name", ["minimal.json", "full.json", "extra.json", "local.json"])
def test_published_json_schema_takes_them(golden, name):
    schema = json.loads((Path(__file__).parents[2] / "docs" / "map.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads((golden / name).read_bytes()))


@pytest.mark.parametrize(
    ("name", "pem", "key_ids"),
    [("envelope.json", "envelope.pub.pem", 1), ("two_keys.json", "two_keys.pub.pem", 2)],
)
def test_envelopes(golden, name, pem, key_ids):
    trusted = TrustedKeys.read(golden / pem)
    assert len(trusted.key_ids) == key_ids
    payload = read_payload(open_envelope((golden / name).read_bytes(), trusted))
    assert (payload.map, payload.channel, payload.sequence, payload.version) == ("prod", "production", 12, 7)
    assert payload.document.encode() == (golden / "full.json").read_bytes()
    assert payload.digest == DIGESTS["full.json"]
    assert payload.issued_at.isoformat() == "2026-11-30T12:00:00+00:00"
    assert payload.expires_at.isoformat() == "2026-12-01T12:00:00.250000+00:00"
    assert payload.map_document().skip_for("translation") == SkipSet((4,))


def test_an_old_key_still_opens_what_two_keys_signed(golden):
    old = TrustedKeys.read(golden / "envelope.pub.pem")
    assert open_envelope((golden / "two_keys.json").read_bytes(), old)


def test_a_later_major_version_is_refused(golden):
    later = (golden / "full.json").read_bytes().replace(b"skipmap.map/1", b"skipmap.map/2")
    with pytest.raises(InvalidInput, match=r"^map\.schema: Input should be 'skipmap.map/1'"):
        read_map(later)
