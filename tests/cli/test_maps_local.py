from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta

import pytest

from skipmap.cli.maps_local import add_verify_arguments, verify
from skipmap.errors import NotFound
from skipmap.maps.channel import ChannelPayload
from skipmap.maps.document import build_map, digest_of, document_bytes
from skipmap.maps.envelope import seal
from skipmap.maps.keys import new_key_file, rotate


@pytest.fixture
def keys(tmp_path):
    """A new signing key; its public file lies beside it."""
    return new_key_file(tmp_path / "key.pem")


@pytest.fixture
def published(finished):
    """Version 3 of a map of the finished job."""
    return document_bytes(build_map([finished.document], "prod", version=3))


@pytest.fixture
def envelope(published, keys, tmp_path):
    """Write an envelope around the version; gives its file."""

    def make(*, hours=24, signed_by=keys, document=published, **changes):
        now = datetime.now(UTC)
        fields = {"map": "prod", "channel": "production", "sequence": 5, "version": 3} | changes
        payload = ChannelPayload(
            **fields,
            digest=digest_of(document),
            issued_at=now - timedelta(hours=48),
            expires_at=now + timedelta(hours=hours),
            document=document.decode(),
        )
        path = tmp_path / "envelope.json"
        path.write_bytes(seal(payload.to_bytes(), signed_by))
        return path

    return make


def run(add_arguments, function, argv, capsys):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args([str(part) for part in argv])
    capsys.readouterr()
    code = function(arguments)
    return code, capsys.readouterr().out


@pytest.fixture
def check(capsys):
    """Run ``verify``: its exit code, what it calls the file, and what is good and bad."""

    def checked(*argv):
        code, out = run(add_verify_arguments, verify, [*argv, "--json"], capsys)
        document = json.loads(out)
        assert (code, document["file"]) == (0 if document["good"] else 2, str(argv[0]))
        told_code, told = run(add_verify_arguments, verify, argv, capsys)
        assert told_code == code
        assert told.count("BAD  ") == sum(not row["good"] for row in document["findings"])
        return document["kind"], {row["what"]: (row["good"], row["text"]) for row in document["findings"]}

    return checked


def bad(found):
    return {what: text for what, (is_good, text) in found[1].items() if not is_good}


def test_good_envelope(check, envelope, keys, tmp_path, published, target):
    kind, found = check(envelope(), "--keys", tmp_path / "key.pem.pub", "--target", target)
    assert kind == "envelope"
    assert {what: is_good for what, (is_good, _) in found.items()} == dict.fromkeys(
        ("signature", "schema", "digest", "expiry", "target"), True
    )
    assert found["signature"][1] == f"by {keys.key_ids[0]}; channel production, sequence 5"
    assert found["schema"][1].startswith("skipmap.map/1: prod version 3; words {")
    assert digest_of(published) in found["digest"][1]


def test_an_envelope_of_two_keys(check, envelope, keys, tmp_path):
    old = tmp_path / "old.pub"
    old.write_text(keys.public_pem())
    assert not bad(check(envelope(signed_by=rotate(tmp_path / "key.pem")), "--keys", old))


def test_what_makes_an_envelope_bad(check, envelope, tmp_path, save_target, published):
    public = tmp_path / "key.pem.pub"
    assert bad(check(envelope())).keys() == {"signature"}
    assert "NOT CHECKED; give the public keys with --keys" in bad(check(envelope()))["signature"]
    other = new_key_file(tmp_path / "other.pem")
    assert (
        "none of these keys is trusted"
        in bad(check(envelope(signed_by=other), "--keys", public))["signature"]
    )
    assert bad(check(envelope(hours=-1), "--keys", public))["expiry"].startswith("EXPIRED at ")
    wrong = bad(check(envelope(), "--keys", public, "--target", save_target("qwen3")))
    assert "has fingerprint" in wrong["target"]
    assert "the channel speaks of 4" in bad(check(envelope(version=4), "--keys", public))["file"]
    spoilt = document_bytes(json.loads(published) | {"fallback": {"skip": [1]}})
    assert "fallback.skip" in bad(check(envelope(document=spoilt), "--keys", public))["file"]
    path = envelope()
    path.write_bytes(path.read_bytes()[:-9])
    assert bad(check(path, "--keys", public)).keys() == {"file"}


def test_published_version(check, published, tmp_path, target, keys):
    path = tmp_path / "version.json"
    path.write_bytes(published)
    kind, found = check(path, "--target", target)
    assert kind == "published version"
    assert found.keys() == {"schema", "digest", "target"}
    assert digest_of(published) in found["digest"][1]
    assert bad(check(path, "--keys", tmp_path / "key.pem.pub")).keys() == {"signature"}


def test_local_map(check, finished, tmp_path, target):
    kind, found = check(finished.map, "--target", target)
    assert kind == "local map"
    assert not bad((kind, found))
    document = json.loads(finished.map.read_text())
    document["domains"]["words"]["skip"] = [0]
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    assert "it was changed" in bad(check(path))["digest"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"schema": "skipmap.result/1"}', '{"a":1,"a":2}'])
def test_files_that_hold_no_map(check, tmp_path, text):
    path = tmp_path / "junk.json"
    path.write_text(text)
    assert bad(check(path)).keys() == {"file"}


def test_files_that_are_not_there(check, finished, tmp_path):
    with pytest.raises(NotFound, match="no file "):
        check(tmp_path / "none.json")
    with pytest.raises(NotFound, match="no key file "):
        check(finished.map, "--keys", tmp_path / "none.pub")


def test_diff(skipmap, finished, envelope, published, tmp_path):
    changed = json.loads(published)
    changed["version"] = 4
    changed["domains"]["words"] |= {"skip": [], "reason": "dense, chosen by the publisher"}
    changed["domains"]["poems"] = changed["domains"]["words"]
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed))
    skip = json.loads(published)["domains"]["words"]["skip"]
    ran = skipmap("maps", "diff", envelope(), path, "--json")
    found = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert (found["old_version"], found["new_version"], found["added"]) == (3, 4, ["poems"])
    assert found["changed"]["words"]["skip"] == [skip, []]
    lines = skipmap("maps", "diff", envelope(), path).out.splitlines()
    assert lines[:2] == ["+ poems", "~ words"]
    assert f"    skip: {json.dumps(skip)} -> []" in lines
    path.write_text("{}")
    ran = skipmap("maps", "diff", finished.map, path)
    assert (ran.code, ran.out) == (2, "")
    assert f"{path}: map.schema: required and not given" in ran.err


def test_show_takes_an_envelope(skipmap, envelope, finished, published):
    ran = skipmap("show", envelope())
    assert ran.code == 0
    assert ran.err == "skipmap: signature not checked; `skipmap maps verify` does\n"
    assert ran.out.startswith("map prod for ")
    as_json = skipmap("show", envelope(), "--json")
    assert json.loads(as_json.out) == json.loads(published)
    path = envelope()
    path.write_bytes(path.read_bytes().replace(b'"payload":"ey', b'"payload":"ex'))
    ran = skipmap("show", path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_generate_checks_the_map(skipmap, target, finished, tmp_path):
    document = json.loads(finished.map.read_text())
    path = tmp_path / "edited.json"
    for change, problem in (
        ({"fallback": {"skip": [1]}}, "map.fallback.skip: "),
        ({"created_at": "yesterday"}, "map.created_at: must be a date and time"),
    ):
        path.write_text(json.dumps(document | change))
        ran = skipmap("generate", "--target", target, "--prompt", "w1", "--map", path, "--domain", "words")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"skipmap: {path}: {problem}")
