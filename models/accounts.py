"""Users and their tokens. A token is shown once; only its hash is stored."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, interval, new_id
from models.errors import Conflict
from skipmap.errors import InvalidInput, NotFound, choices

Scope = Literal["jobs:read", "jobs:write", "maps:read", "maps:publish", "nodes:report", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_PREFIX = "skm_"
_SECRET_BYTES = 32
_SHOWN_CHARACTERS = 12
_USE_NOTED_SECONDS = 60
_LISTED = ", ".join(f"'{scope}'" for scope in SCOPES)


class User(Base):
    """A person or a program that holds tokens."""

    __tablename__ = "users"

    id: Mapped[Id] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[Created]
    disabled_at: Mapped[datetime | None]


class Token(Base):
    """A bearer token: SHA-256 of the secret, what it may do, until when."""

    __tablename__ = "tokens"

    id: Mapped[Id] = mapped_column(primary_key=True)
    user_id: Mapped[Id] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    name: Mapped[str]
    prefix: Mapped[str]
    """First characters, to tell tokens apart."""
    sha256: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[Created]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    """Within a minute."""

    __table_args__ = (
        CheckConstraint(f"cardinality(scopes) > 0 AND scopes <@ ARRAY[{_LISTED}]::text[]", "scopes"),
        Index(None, "user_id"),
    )


@dataclass(frozen=True)
class Principal:
    """Who makes a request, and what the token allows."""

    user_id: str
    user_name: str
    token_id: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """Whether the token has the scope; ``admin`` has all."""
        return scope in self.scopes or "admin" in self.scopes


def create_user(session: Session, name: str) -> User:
    """Add a user; raises Conflict when the name is taken."""
    added = session.scalars(
        insert(User).values(id=new_id(), name=name).on_conflict_do_nothing().returning(User)
    ).first()
    if added is None:
        raise Conflict(f"the user name {name!r} is taken; choose another", "exists")
    return added


def create_token(
    session: Session, user_id: str, name: str, scopes: Sequence[str], expires_at: datetime | None = None
) -> tuple[Token, str]:
    """Make a token; returns it with its secret, which cannot be shown again.

    Raises InvalidInput for an unknown scope and NotFound for an unknown user.
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        given = ", ".join(unknown) or "none"
        raise InvalidInput("scopes", f"{given} given; allowed are {choices(SCOPES)}")
    if session.get(User, user_id) is None:
        raise NotFound(f"no user {user_id!r}")
    secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    token = Token(
        id=new_id(),
        user_id=user_id,
        name=name,
        prefix=secret[:_SHOWN_CHARACTERS],
        sha256=_hash(secret),
        scopes=sorted(set(scopes)),
        expires_at=expires_at,
    )
    session.add(token)
    session.flush()
    return token, secret


def authenticate(session: Session, secret: str) -> Principal | None:
    """Who holds the secret, or None when it is unknown, expired or revoked or the user is disabled."""
    now = func.clock_timestamp()
    long_ago = or_(Token.last_used_at.is_(None), Token.last_used_at < now - interval(_USE_NOTED_SECONDS))
    row = session.execute(
        select(Token, User, long_ago)
        .join(User, User.id == Token.user_id)
        .where(
            # The hash of 256 random bits tells nothing by how far a comparison gets.
            Token.sha256 == _hash(secret),
            Token.revoked_at.is_(None),
            or_(Token.expires_at.is_(None), Token.expires_at > now),
            User.disabled_at.is_(None),
        )
    ).first()
    if row is None:
        return None
    token, user, unnoted = row
    if unnoted:
        session.execute(update(Token).where(Token.id == token.id, long_ago).values(last_used_at=now))
    return Principal(user.id, user.name, token.id, frozenset(token.scopes))


def tokens_of(session: Session, user_id: str | None = None) -> Sequence[Token]:
    """Tokens of a user, or of all, newest first."""
    query = select(Token).order_by(Token.id.desc())
    return session.scalars(query if user_id is None else query.where(Token.user_id == user_id)).all()


def list_tokens(
    session: Session, *, limit: int, only: str | None = None, before: str | None = None
) -> Sequence[Token]:
    """A page of tokens, newest first, or one by its id; ``before``: id of the last one of the page before."""
    query = select(Token).order_by(Token.id.desc()).limit(limit)
    if only is not None:
        query = query.where(Token.id == only)
    return session.scalars(query if before is None else query.where(Token.id < before)).all()


def list_users(session: Session, *, limit: int, before: str | None = None) -> Sequence[User]:
    """A page of users, newest first; ``before``: id of the last one of the page before."""
    query = select(User).order_by(User.id.desc()).limit(limit)
    return session.scalars(query if before is None else query.where(User.id < before)).all()


def revoke_token(session: Session, token_id: str) -> None:
    """End a token at once; raises NotFound. Revoking twice changes nothing."""
    if session.get(Token, token_id) is None:
        raise NotFound(f"no token {token_id!r}")
    session.execute(
        update(Token)
        .where(Token.id == token_id, Token.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
    )


def disable_user(session: Session, user_id: str) -> None:
    """Refuse all tokens of a user from now on; raises NotFound."""
    done = session.execute(
        update(User)
        .where(User.id == user_id)
        .values(disabled_at=func.coalesce(User.disabled_at, func.clock_timestamp()))
        .returning(User.id)
    )
    if done.first() is None:
        raise NotFound(f"no user {user_id!r}")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
