"""Ed25519 keys that sign channels, as PEM files; while keys rotate, two sign at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused

DEFAULT_KEY_FILE = "signing-key.pem"
"""Name of the private file in the home folder."""

MAX_SIGNING_KEYS = 2
_MAX_FILE_BYTES = 64 * 1024
_KEY_ID_CHARACTERS = 16
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


def key_id(public: Ed25519PublicKey) -> str:
    """First 16 hex digits of the sha256 of the 32 raw bytes."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:_KEY_ID_CHARACTERS]


@dataclass(frozen=True, repr=False)
class SigningKeys:
    """The private keys that sign, the oldest first."""

    keys: tuple[Ed25519PrivateKey, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SigningKeys:
        """Read a private file.

        Raises NotFound without the file, Refused when others may read it, InvalidInput when it holds no usable key.
        """
        path = Path(path)
        return cls(_private_keys(_read(path, private=True), str(path)))

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys, the oldest first."""
        return tuple(key_id(key.public_key()) for key in self.keys)

    def sign(self, message: bytes) -> list[tuple[str, bytes]]:
        """Key id and signature (64 bytes) of every key."""
        return [(key_id(key.public_key()), key.sign(message)) for key in self.keys]

    def public_pem(self) -> str:
        """The public keys as PEM, one after the other."""
        return self.trusted().public_pem()

    def trusted(self) -> TrustedKeys:
        """What a reader trusts who trusts these keys."""
        return TrustedKeys({key_id(key.public_key()): key.public_key() for key in self.keys})


@dataclass(frozen=True)
class TrustedKeys:
    """Public keys by id."""

    keys: dict[str, Ed25519PublicKey]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TrustedKeys:
        """Read a file of public keys; raises NotFound, or InvalidInput when it holds no usable key."""
        path = Path(path)
        return cls.of(_read(path), str(path))

    @classmethod
    def of(cls, pem_text: str, field: str = "trusted_keys") -> TrustedKeys:
        """Public keys from PEM text, one after the other."""
        keys = [_load_public(block, field) for block in _blocks(pem_text, "PUBLIC KEY", field)]
        return cls({key_id(key): key for key in keys})

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys."""
        return tuple(self.keys)

    def public_pem(self) -> str:
        """The keys as PEM, one after the other."""
        return "".join(map(_public_pem, self.keys.values()))

    def verify(self, keyid: str, message: bytes, signature: bytes) -> bool:
        """Whether a trusted key of this id has signed the message."""
        key = self.keys.get(keyid)
        if key is None:
            return False
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def is_private(path: Path) -> bool:
    """Whether a key file holds private keys; raises NotFound or InvalidInput when it cannot be read."""
    return "PRIVATE KEY-----" in _read(path)


def public_file(path: Path) -> Path:
    """Where the public keys of a private file lie."""
    return path.with_name(f"{path.name}.pub")


def new_key_file(path: Path) -> SigningKeys:
    """Make a key and write the private file and the public one; raises Refused rather than replace a file."""
    keys = SigningKeys((Ed25519PrivateKey.generate(),))
    with _disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _write_beside(path, _private_pem(keys.keys), 0o600)
        try:
            # A link never replaces, a rename would.
            os.link(temporary, path)
        except FileExistsError:
            raise Refused(f"{path} exists; rotate its key, or choose another place") from None
        finally:
            temporary.unlink()
    _write_public(path, keys)
    return keys


def ensure_key_file(path: Path) -> SigningKeys:
    """Read a private file; where there is none, make it, and the public one beside it as well.

    Several processes may do so at once.
    """
    if not path.exists():
        with contextlib.suppress(Refused):
            return new_key_file(path)
    keys = SigningKeys.read(path)
    if not public_file(path).exists():
        # Of a key that was brought here alone. Where nothing can be written it signs all the same.
        with contextlib.suppress(ModelFailure):
            _write_public(path, keys)
    return keys


def rotate(path: Path) -> SigningKeys:
    """Add a second key: from now on both sign. Raises Refused while an earlier rotation is not finished."""
    with _alone(path):
        old = SigningKeys.read(path)
        if len(old.keys) >= MAX_SIGNING_KEYS:
            raise Refused(f"{path} holds {len(old.keys)} keys already; finish that rotation first")
        return _replace(path, SigningKeys((*old.keys, Ed25519PrivateKey.generate())))


def finish_rotation(path: Path) -> SigningKeys:
    """Drop the older key: the newer one signs alone. Raises Refused when no rotation is under way."""
    with _alone(path):
        old = SigningKeys.read(path)
        if len(old.keys) < MAX_SIGNING_KEYS:
            raise Refused(f"{path} holds a single key; there is no rotation to finish")
        return _replace(path, SigningKeys(old.keys[-1:]))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep others from changing a key file meanwhile: of two new keys one would be lost."""
    try:
        # The folder, for the file itself becomes another one.
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise NotFound(f"cannot open the folder of {str(path)!r}: {error.strerror or error}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace(path: Path, keys: SigningKeys) -> SigningKeys:
    # A link, as Kubernetes mounts them, stays one.
    path = path.resolve()
    # The public file first: when the private one fails, what signs is known still, and the command can be repeated.
    _write_public(path, keys)
    with _disk(path):
        _write_beside(path, _private_pem(keys.keys), 0o600).replace(path)
    return keys


def _write_public(path: Path, keys: SigningKeys) -> None:
    target = public_file(path)
    with _disk(target):
        _write_beside(target, keys.public_pem(), 0o644).replace(target)


def _write_beside(path: Path, text: str, mode: int) -> Path:
    """A finished file of another name in the same folder; its content is on the disk."""
    # Made with mode 0600, so nobody else ever reads a part.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelFailure(f"cannot write {path}: {error.strerror or error}; choose another place") from None


def _read(path: Path, private: bool = False) -> str:
    try:
        with path.open("rb") as file:
            if private:
                _check_mode(path, os.fstat(file.fileno()))
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"no key file {str(path)!r}; make one with `skipmap keys new`") from None
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise InvalidInput(str(path), f"is no key file: it has more than {_MAX_FILE_BYTES} bytes")
    return data.decode("utf-8", errors="replace")


def _check_mode(path: Path, status: os.stat_result) -> None:
    me = os.geteuid()
    if status.st_uid not in (me, 0):
        raise Refused(
            f"{path} belongs to another user (uid {status.st_uid}); a private key must be one's own"
        )
    # The file of an administrator reaches a service through its group.
    forbidden = 0o077 if status.st_uid == me else 0o037
    if status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        raise Refused(f"{path} can be read or changed by others (mode {mode:04o}); run chmod 600 {path}")


def _blocks(text: str, kind: str, field: str) -> list[str]:
    found = list(_BLOCK.finditer(text))
    wrong = next((block[1] for block in found if block[1] != kind), None)
    if wrong is not None:
        raise InvalidInput(field, f"holds a PEM block {wrong!r}; only {kind!r} blocks are allowed")
    if not found:
        raise InvalidInput(field, f"holds no PEM block {kind!r}; make keys with `skipmap keys new`")
    if text.count("-----BEGIN ") != len(found):
        # Else a file that was cut short would seem to hold fewer keys.
        raise InvalidInput(field, "holds a PEM block without its end; copy the file again")
    return [f"{block[0]}\n" for block in found]


def _private_keys(text: str, field: str) -> tuple[Ed25519PrivateKey, ...]:
    blocks = _blocks(text, "PRIVATE KEY", field)
    if len(blocks) > MAX_SIGNING_KEYS:
        raise InvalidInput(field, f"holds {len(blocks)} keys; one or two may sign")
    keys: list[Ed25519PrivateKey] = []
    for block in blocks:
        try:
            key = load_pem_private_key(block.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # The library's words could hold parts of the key.
            raise InvalidInput(field, "holds a private key that cannot be read") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput(field, "holds a private key that is no Ed25519 key")
        keys.append(key)
    return tuple(keys)


def _load_public(block: str, field: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(block.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput(field, "holds a public key that cannot be read") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(field, "holds a public key that is no Ed25519 key")
    return key


def _private_pem(keys: Sequence[Ed25519PrivateKey]) -> str:
    pems = (key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) for key in keys)
    return b"".join(pems).decode("ascii")


def _public_pem(key: Ed25519PublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")
