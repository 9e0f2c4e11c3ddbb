from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused
from skipmap.maps.keys import (
    SigningKeys,
    TrustedKeys,
    ensure_key_file,
    finish_rotation,
    is_private,
    key_id,
    new_key_file,
    public_file,
    rotate,
)

MESSAGE = b"message"


@pytest.fixture
def path(tmp_path):
    """Where a key file may be made; the folder is not there yet."""
    return tmp_path / "home" / "signing-key.pem"


def private_pem(key, encryption=None):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def write_private(path, *pems, mode=0o600):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(pems))
    path.chmod(mode)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_key_id_is_that_of_the_raw_public_bytes():
    public = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()
    raw = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    assert len(raw) == 32
    assert key_id(public) == hashlib.sha256(raw).hexdigest()[:16]


def test_new_key_file(path):
    made = new_key_file(path)
    read = SigningKeys.read(path)
    assert read.key_ids == made.key_ids
    assert len(read.key_ids) == 1
    assert (mode_of(path), mode_of(public_file(path))) == (0o600, 0o644)
    assert public_file(path).read_text() == read.public_pem()
    assert {file.name for file in path.parent.iterdir()} == {"signing-key.pem", "signing-key.pem.pub"}
    trusted = TrustedKeys.read(public_file(path))
    ((keyid, signature),) = read.sign(MESSAGE)
    assert len(signature) == 64
    assert trusted.verify(keyid, MESSAGE, signature)
    assert not trusted.verify(keyid, MESSAGE + b"!", signature)
    assert not trusted.verify(keyid, MESSAGE, signature[:-1])
    assert not trusted.verify("0" * 16, MESSAGE, signature)
    assert (is_private(path), is_private(public_file(path))) == (True, False)


def test_a_key_is_never_replaced(path):
    new_key_file(path)
    before = path.read_bytes()
    with pytest.raises(Refused, match=r"exists; rotate its key, or choose another place$"):
        new_key_file(path)
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 2


def test_the_private_key_shows_nowhere(path):
    keys = new_key_file(path)
    secret = keys.keys[0].private_bytes_raw()
    assert secret.hex() not in repr(keys)
    assert b"PRIVATE" not in public_file(path).read_bytes()


def test_rotation(path):
    (old,) = new_key_file(path).key_ids
    first = TrustedKeys.read(public_file(path))
    with pytest.raises(Refused, match="holds a single key; there is no rotation to finish"):
        finish_rotation(path)
    rotate(path)
    both = SigningKeys.read(path)
    assert both.key_ids[0] == old
    new = both.key_ids[1]
    assert new != old
    assert mode_of(path) == 0o600
    trusted = TrustedKeys.read(public_file(path))
    assert trusted.key_ids == (old, new)
    signatures = both.sign(MESSAGE)
    assert [keyid for keyid, _ in signatures] == [old, new]
    assert [trusted.verify(keyid, MESSAGE, signature) for keyid, signature in signatures] == [True, True]
    # A node with the old public keys accepts what both have signed.
    assert [first.verify(keyid, MESSAGE, signature) for keyid, signature in signatures] == [True, False]
    with pytest.raises(Refused, match="holds 2 keys already; finish that rotation first"):
        rotate(path)
    finish_rotation(path)
    assert SigningKeys.read(path).key_ids == TrustedKeys.read(public_file(path)).key_ids == (new,)


def test_a_linked_file_stays_a_link(path, tmp_path):
    new_key_file(path)
    link = tmp_path / "key.pem"
    link.symlink_to(path)
    rotate(link)
    assert link.is_symlink()
    assert len(SigningKeys.read(path).keys) == len(TrustedKeys.read(public_file(path)).keys) == 2


def test_a_failed_write_leaves_the_old_key(path, monkeypatch):
    new_key_file(path)
    before = path.read_bytes()

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ModelFailure, match=r"cannot write .*: No space left on device; choose another place"):
        rotate(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", [rotate, finish_rotation])
def test_a_rotation_whose_public_file_cannot_be_written_can_be_repeated(path, monkeypatch, change):
    """Else the new key signs, nodes get no word of it, and the command says that it is done already."""
    new_key_file(path)
    if change is finish_rotation:
        rotate(path)
    before = path.read_bytes()
    replace = Path.replace

    def fail(self, target):
        if target == public_file(path):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(ModelFailure, match="No space left"):
            change(path)
    assert path.read_bytes() == before
    assert change(path).key_ids == TrustedKeys.read(public_file(path)).key_ids


def test_of_two_who_rotate_together_one_does(path, monkeypatch):
    new_key_file(path)
    read = SigningKeys.read
    both = threading.Barrier(2)

    def slow(path):
        found = read(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return found

    def go(_):
        try:
            return rotate(path).key_ids
        except Refused:
            return None

    monkeypatch.setattr(SigningKeys, "read", slow)
    with ThreadPoolExecutor(2) as pool:
        done = [ids for ids in pool.map(go, range(2)) if ids is not None]
    assert done == [TrustedKeys.read(public_file(path)).key_ids]


def test_a_key_that_was_brought_alone_gets_its_public_file(path):
    keys = new_key_file(path)
    public_file(path).unlink()
    assert ensure_key_file(path).key_ids == TrustedKeys.read(public_file(path)).key_ids == keys.key_ids


def test_processes_that_start_together_agree(path):
    with ThreadPoolExecutor(8) as pool:
        found = {keys.key_ids for keys in pool.map(lambda _: ensure_key_file(path), range(16))}
    assert found == {SigningKeys.read(path).key_ids}
    assert TrustedKeys.read(public_file(path)).key_ids in found


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620, 0o601])
def test_file_that_others_may_read_is_refused(path, mode):
    new_key_file(path)
    path.chmod(mode)
    with pytest.raises(
        Refused, match=rf"can be read or changed by others \(mode 0{mode:o}\); run chmod 600 "
    ):
        SigningKeys.read(path)


@pytest.mark.parametrize(
    ("uid", "mode", "accepted"),
    [(0, 0o640, True), (0, 0o400, True), (0, 0o644, False), (0, 0o660, False), (4711, 0o600, False)],
)
def test_file_of_another_user(path, monkeypatch, uid, mode, accepted):
    new_key_file(path)
    status = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, uid, 0, 0, 0, 0, 0))
    monkeypatch.setattr(os, "fstat", lambda handle: status)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if accepted:
        assert SigningKeys.read(path).key_ids
    else:
        with pytest.raises(Refused):
            SigningKeys.read(path)


def test_files_that_hold_no_usable_key(path, tmp_path):
    key = private_pem(Ed25519PrivateKey.generate())
    ec = generate_private_key(SECP256R1())
    encrypted = private_pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret"))
    public = ec.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    broken = key.replace(b"MC4", b"AAA")
    own = SigningKeys((Ed25519PrivateKey.generate(),)).public_pem()
    for pems, problem in (
        ((b"",), "holds no PEM block 'PRIVATE KEY'; make keys with `skipmap keys new`"),
        ((b"\xff\xfe junk",), "holds no PEM block 'PRIVATE KEY'"),
        ((private_pem(ec),), "holds a private key that is no Ed25519 key"),
        ((encrypted,), "holds a PEM block 'ENCRYPTED PRIVATE KEY'; only 'PRIVATE KEY' blocks are allowed"),
        ((key, public), "holds a PEM block 'PUBLIC KEY'"),
        ((key, key, key), "holds 3 keys; one or two may sign"),
        ((broken,), "holds a private key that cannot be read"),
        ((key, key[:-8]), "holds a PEM block without its end; copy the file again"),
        ((key, b"x" * 70_000), "is no key file: it has more than 65536 bytes"),
    ):
        write_private(path, *pems)
        with pytest.raises(InvalidInput) as caught:
            SigningKeys.read(path)
        assert caught.value.problem.startswith(problem)
    for text, problem in (
        ("", "holds no PEM block 'PUBLIC KEY'"),
        (key.decode(), "holds a PEM block 'PRIVATE KEY'"),
        (public.decode(), "holds a public key that is no Ed25519 key"),
        (own + own[:60], "holds a PEM block without its end"),
        (public.decode().replace("MF", "AA"), "holds a public key that cannot be read"),
    ):
        with pytest.raises(InvalidInput) as caught:
            TrustedKeys.of(text)
        assert caught.value.problem.startswith(problem)
    with pytest.raises(NotFound, match="make one with `skipmap keys new`"):
        SigningKeys.read(tmp_path / "none.pem")
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        SigningKeys.read(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFailure, match=r"cannot write .*; choose another place"):
        new_key_file(tmp_path / "file" / "key.pem")
