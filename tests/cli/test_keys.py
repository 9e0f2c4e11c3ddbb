from __future__ import annotations

import argparse
import json

import pytest

from skipmap.cli.keys import add_keys_parser
from skipmap.errors import InvalidInput, NotFound, Refused
from skipmap.maps.keys import SigningKeys, TrustedKeys, rotate
from skipmap.settings import get_settings


@pytest.fixture
def keys(capsys):
    """Run a ``skipmap keys`` command; gives its JSON."""
    parser = argparse.ArgumentParser()
    add_keys_parser(parser.add_subparsers(required=True))

    def run(*argv):
        arguments = parser.parse_args(["keys", *map(str, argv)])
        capsys.readouterr()
        assert arguments.run(arguments) == 0
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in argv else out

    return run


@pytest.fixture
def path(tmp_path):
    """Where a key file may be made."""
    return tmp_path / "my key.pem"


def test_new_and_show(keys, path):
    made = keys("new", path, "--json")
    signing = SigningKeys.read(path)
    assert made == {
        "file": str(path),
        "private": True,
        "key_ids": list(signing.key_ids),
        "public_pem": signing.public_pem(),
    }
    assert keys("show", path, "--json") == made
    public = f"{path}.pub"
    assert keys("show", public, "--json") == made | {"file": public, "private": False}
    assert keys("show", path) == keys("show", public) == f"{signing.key_ids[0]}\n{signing.public_pem()}"
    with pytest.raises(Refused):
        keys("new", path)


def test_a_key_that_is_there_can_be_left_as_it_is(keys, path):
    first = keys("new", path, "--if-missing", "--json")
    assert keys("new", path, "--if-missing", "--json") == first
    assert SigningKeys.read(path).key_ids == tuple(first["key_ids"])


def test_nothing_private_is_printed(keys, path):
    assert "PRIVATE" not in keys("new", path)
    assert "PRIVATE" not in keys("rotate", path)
    assert "PRIVATE" not in keys("show", path)


def test_rotation(keys, path):
    (old,) = keys("new", path, "--json")["key_ids"]
    first, new = keys("rotate", path, "--json")["key_ids"]
    assert first == old
    with pytest.raises(Refused, match="finish that rotation first"):
        keys("rotate", path)
    assert keys("rotate", path, "--finish", "--json")["key_ids"] == [new]
    assert TrustedKeys.read(f"{path}.pub").key_ids == (new,)
    with pytest.raises(Refused, match="there is no rotation to finish"):
        keys("rotate", path, "--finish")


def test_default_places(keys, tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPMAP_SIGNING_KEY_FILE", str(tmp_path / "named.pem"))
    assert keys("new", "--json")["file"] == str(tmp_path / "named.pem")
    monkeypatch.delenv("SKIPMAP_SIGNING_KEY_FILE")
    monkeypatch.setenv("SKIPMAP_HOME", str(tmp_path / "home"))
    get_settings.cache_clear()
    try:
        assert keys("new", "--json")["file"] == str(tmp_path / "home" / "signing-key.pem")
    finally:
        get_settings.cache_clear()


def test_files_that_cannot_be_used(keys, path, tmp_path):
    with pytest.raises(NotFound, match="make one with `skipmap keys new`"):
        keys("show", path)
    with pytest.raises(NotFound):
        keys("rotate", path)
    path.write_text("junk")
    with pytest.raises(InvalidInput):
        keys("show", path)
    other = tmp_path / "other.pem"
    keys("new", other)
    rotate(other)
    other.chmod(0o644)
    for asked in (("show", other), ("rotate", other, "--finish")):
        with pytest.raises(Refused, match="chmod 600"):
            keys(*asked)
