"""Rows of users and of the tokens that they hold, and who makes a request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Created, Id, one_of
from models.roles import ROLES, SCOPES, Role, Scope

_LISTED = ", ".join(f"'{scope}'" for scope in SCOPES)


class User(Base):
    """A person or a program: signs in with a password or at an identity provider, and holds tokens."""

    __tablename__ = "users"

    id: Mapped[Id] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[Role] = mapped_column(Text, server_default=text("'viewer'"))
    """What sessions of the user may do; tokens have scopes of their own."""
    password_hash: Mapped[str | None]
    """As ``models.passwords`` makes it; None: no password opens a session."""
    oidc_subject: Mapped[str | None] = mapped_column(unique=True)
    """Who the user is at the identity provider."""
    created_at: Mapped[Created]
    disabled_at: Mapped[datetime | None]

    # A password by mistake in place of its hash is refused.
    __table_args__ = (
        CheckConstraint(one_of("role", ROLES), "role"),
        CheckConstraint("password_hash LIKE '$argon2id$%'", "password_hash"),
    )


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
class Use:
    """A use of a token or session that is to be noted, and when one was noted before."""

    of: Literal["token", "session"]
    id: str
    noted_at: datetime | None


@dataclass(frozen=True)
class Principal:
    """Who makes a request, and what the token or the session allows; ``token_id`` is the id of either.

    ``use``: to be noted with ``models.uses.note_use``; None where that was done lately.
    """

    user_id: str
    user_name: str
    token_id: str
    scopes: frozenset[str]
    use: Use | None = field(default=None, compare=False)

    def may(self, scope: Scope) -> bool:
        """Whether the principal has the scope; ``admin`` has all."""
        return scope in self.scopes or "admin" in self.scopes


def hash_secret(secret: str) -> str:
    """What is stored of a secret of 256 random bits, which need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
