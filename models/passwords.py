"""Passwords, stored as Argon2id hashes. Making and checking a hash takes long on purpose: never in a transaction."""

from __future__ import annotations

import base64
import secrets
import unicodedata
from collections.abc import Callable
from typing import NewType, Protocol, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models.database import Database
from models.errors import NotFound
from models.sessions import end_sessions
from models.users import User
from skipmap.canonical import bad_text
from skipmap.errors import InvalidInput

PasswordHash = NewType("PasswordHash", str)
Result = TypeVar("Result")

MIN_CHARACTERS = 12
MAX_CHARACTERS = 1024
HASH_BYTES = RFC_9106_LOW_MEMORY.memory_cost << 10
"""Memory that a hash takes while it is made or checked."""

_FIELD = "password"
_hasher = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)


class Aside(Protocol):
    """How to do what computes for long, on so many bytes, in a process that has others to serve meanwhile."""

    def __call__(self, work: Callable[[], Result], size: int, /) -> Result:
        """What the work returns, or raises."""
        ...


def _at_once(work: Callable[[], Result], size: int, /) -> Result:
    return work()


def hash_password(user_name: str, password: str) -> PasswordHash:
    """The hash to store for a user's new password; takes some 50 ms. Raises InvalidInput for a bad password."""
    if not _is_text(password):
        raise InvalidInput(
            _FIELD, "it holds a NUL or half a character, which nobody can type; leave that out"
        )
    if len(password) > MAX_CHARACTERS or len(_normal(password)) < MIN_CHARACTERS:
        raise InvalidInput(
            _FIELD,
            f"it has {len(password)} characters; take {MIN_CHARACTERS} to {MAX_CHARACTERS}, such as a few words",
        )
    if _normal(password).strip().casefold() == _normal(user_name).strip().casefold():
        raise InvalidInput(_FIELD, "it is the user's name, which everybody would try; choose another")
    return PasswordHash(_hasher.hash(_normal(password)))


def set_password(
    session: Session, user_id: str, password_hash: PasswordHash | None, *, but: str | None = None
) -> None:
    """Store what ``hash_password`` gave; None: no password any more. Raises NotFound.

    Ends the user's sessions, all but the one with the id ``but``.
    """
    done = session.execute(
        update(User).where(User.id == user_id).values(password_hash=password_hash).returning(User.id)
    )
    if done.first() is None:
        raise NotFound(f"no user {user_id!r}")
    end_sessions(session, user_id, but)


def verify(database: Database, name: str, password: str, *, aside: Aside = _at_once) -> User | None:
    """The user of that name if the password is right, else None, also for a disabled user.

    Takes as long for a name that nobody has. A hash made with other parameters than today's is made anew.
    """
    user = database.read(_named, name)
    stored = user.password_hash if user is not None else None
    known = stored if stored is not None else _nobodys_hash()
    right = aside(lambda: _is_right(known, password), HASH_BYTES)
    if user is None or stored is None or not right or user.disabled_at is not None:
        return None
    if _hasher.check_needs_rehash(stored):
        new = aside(lambda: _hasher.hash(_normal(password)), HASH_BYTES)
        database.transaction(_replace_hash, user.id, stored, new)
    return user


def _is_right(stored: str, password: str) -> bool:
    # What cannot be a password takes as long, too.
    possible = _is_text(password) and len(password) <= MAX_CHARACTERS
    try:
        return _hasher.verify(stored, _normal(password) if possible else "")
    except (VerificationError, InvalidHashError):
        return False


def _is_text(text: str) -> bool:
    return bad_text(text) is None


def _normal(text: str) -> str:
    # Keyboards and systems write one and the same letter in more than one way.
    return unicodedata.normalize("NFKC", text)


def _nobodys_hash() -> str:
    """A hash of today's parameters that no password is known for; checking one against it takes as long as any."""
    parts = (
        f"m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}",
        *(
            base64.b64encode(secrets.token_bytes(length)).decode("ascii").rstrip("=")
            for length in (_hasher.salt_len, _hasher.hash_len)
        ),
    )
    return "$argon2id$v=19$" + "$".join(parts)


def _named(session: Session, name: str) -> User | None:
    return session.scalars(select(User).where(User.name == name)).first() if _is_text(name) else None


def _replace_hash(session: Session, user_id: str, old: str, new: str) -> None:
    # A password that was set meanwhile stays.
    session.execute(
        update(User).where(User.id == user_id, User.password_hash == old).values(password_hash=new)
    )
