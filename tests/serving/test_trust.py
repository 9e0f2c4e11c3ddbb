from __future__ import annotations

import pytest

from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.keys import SigningKeys, finish_rotation, new_key_file, public_file, rotate
from skipmap.serving.trust import KeyRing
from tests.serving.channel_server import ChannelServer
from tests.serving.following import following


def test_keys_of_a_file_are_read_again_when_it_changes(tmp_path, caplog):
    private = tmp_path / "key.pem"
    old = new_key_file(private)
    public = public_file(private)
    ring = KeyRing.of(public)
    assert ring.keys.key_ids == old.key_ids
    both = rotate(private)
    assert set(ring.keys.key_ids) == set(both.key_ids)
    good = public.read_text()
    for text in ("", "rubbish", good[:-40]):
        public.write_text(text)
        assert set(ring.keys.key_ids) == set(both.key_ids)
    public.unlink()
    assert set(ring.keys.key_ids) == set(both.key_ids)
    assert "the keys stay as they were" in caplog.text


def test_what_gives_no_keys_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="unsigned maps are never used"):
        KeyRing.of(None)
    with pytest.raises(NotFound):
        KeyRing.of(tmp_path / "none.pem")


def test_a_running_client_follows_a_rotation_of_keys(tmp_path):
    """Old key, both, new key alone: the file is replaced, and the client goes on without a restart."""
    private = tmp_path / "key.pem"
    new_key_file(private)
    with ChannelServer().running() as service:
        service.keys = SigningKeys.read(private)
        service.publish(version=1)
        with following(service, trusted_keys=public_file(private)) as client:
            assert client.wait(15)
            for version, change in ((2, rotate), (3, finish_rotation)):
                service.keys = change(private)
                service.publish(version=version)
                assert client.refresh(15)
                assert client.current.version == version
                assert client.status().key_ids == service.keys.key_ids
