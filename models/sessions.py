"""Sessions: who is signed in to the pages, with what, from where. Only the hash of a session's secret is stored."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Index,
    Text,
    and_,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, clean, interval, new_id, one_of
from models.errors import NotFound
from models.roles import scopes_of
from models.users import Principal, Token, Use, User, hash_secret

SignedInWith = Literal["password", "token", "oidc"]

MOST_LISTED = 100
_SECRET_BYTES = 32
_AGENT_CHARACTERS = 200
_SEEN_NOTED_SECONDS = 60.0
_SEEN_NOTED_SHARE = 0.1
"""Of the time that a session may rest: it must not end early because its use was not noted."""


class UserSession(Base):
    """One sign-in of a user."""

    __tablename__ = "sessions"

    id: Mapped[Id] = mapped_column(primary_key=True)
    user_id: Mapped[Id] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    token_id: Mapped[Id | None] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    """The token that opened it: the session may do what that token may, as long as it is valid."""
    signed_in_with: Mapped[SignedInWith] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[Created]
    seen_at: Mapped[Created]
    """Of its last request, within a minute."""
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    """When it was ended before its time."""
    address: Mapped[str]
    agent: Mapped[str]

    __table_args__ = (
        CheckConstraint(one_of("signed_in_with", get_args(SignedInWith)), "signed_in_with"),
        CheckConstraint("(signed_in_with = 'token') = (token_id IS NOT NULL)", "token"),
        Index(None, "user_id", "id"),
        Index(None, "token_id"),
    )


@dataclass(frozen=True)
class SessionPrincipal:
    """Who is signed in. The token id of ``principal`` is the session's own."""

    principal: Principal
    session_id: str
    expires_at: datetime
    signed_in_with: SignedInWith


def open_session(
    session: Session,
    user_id: str,
    *,
    token_id: str | None = None,
    signed_in_with: SignedInWith | None = None,
    lifetime_seconds: float,
    address: str,
    agent: str,
) -> tuple[UserSession, str]:
    """Sign a user in whose password, token (``token_id``) or identity has been checked; returns row and secret.

    ``signed_in_with``: by default "token" when there is one, else "password".
    """
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    row = UserSession(
        id=new_id(),
        user_id=user_id,
        token_id=token_id,
        signed_in_with=signed_in_with or ("password" if token_id is None else "token"),
        sha256=hash_secret(secret),
        expires_at=func.clock_timestamp() + interval(lifetime_seconds),
        address=clean(address),
        agent=clean(agent)[:_AGENT_CHARACTERS],
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row, secret


def session_principal(session: Session, secret: str, idle_seconds: float) -> SessionPrincipal | None:
    """Who is signed in with the secret; reads only.

    None when the session is unknown, ended, over or unused for ``idle_seconds``, when its user is disabled, or when
    the token that opened it is no longer valid.
    """
    now = func.clock_timestamp()
    noted_seconds = min(_SEEN_NOTED_SECONDS, _SEEN_NOTED_SHARE * idle_seconds)
    long_ago = UserSession.seen_at < now - interval(noted_seconds)
    row = session.execute(
        select(UserSession, User, Token.scopes, long_ago)
        .join(User, User.id == UserSession.user_id)
        .outerjoin(Token, Token.id == UserSession.token_id)
        .where(
            # The hash of 256 random bits tells nothing by how far a comparison gets.
            UserSession.sha256 == hash_secret(secret),
            can_be_used(idle_seconds),
            User.disabled_at.is_(None),
            Token.revoked_at.is_(None),
            or_(Token.expires_at.is_(None), Token.expires_at > now),
        )
    ).first()
    if row is None:
        return None
    found, user, token_scopes, unnoted = row
    scopes = scopes_of(user.role) if token_scopes is None else frozenset(token_scopes)
    use = Use("session", found.id, found.seen_at) if unnoted else None
    return SessionPrincipal(
        Principal(user.id, user.name, found.id, scopes, use), found.id, found.expires_at, found.signed_in_with
    )


def can_be_used(idle_seconds: float) -> ColumnElement[bool]:
    """Whether a session is neither ended, nor over, nor unused for ``idle_seconds``."""
    now = func.clock_timestamp()
    return and_(
        UserSession.ended_at.is_(None),
        UserSession.expires_at > now,
        UserSession.seen_at > now - interval(idle_seconds),
    )


def sessions_of(session: Session, user_id: str, idle_seconds: float) -> Sequence[UserSession]:
    """Sessions of a user that can be used, the ``MOST_LISTED`` newest ones, newest first."""
    return session.scalars(
        select(UserSession)
        .where(UserSession.user_id == user_id, can_be_used(idle_seconds))
        .order_by(UserSession.id.desc())
        .limit(MOST_LISTED)
    ).all()


def end_session(session: Session, session_id: str, *, user_id: str | None = None) -> None:
    """Sign out; with ``user_id`` only from a session of that user. Raises NotFound; ending twice changes nothing."""
    found = session.get(UserSession, session_id)
    if found is None or user_id not in (None, found.user_id):
        raise NotFound(f"no session {session_id!r}")
    session.execute(
        update(UserSession)
        .where(UserSession.id == session_id, UserSession.ended_at.is_(None))
        .values(ended_at=func.clock_timestamp())
    )


def end_sessions(session: Session, user_id: str, but: str | None = None) -> int:
    """End all sessions of a user, or all but one; returns how many."""
    query = update(UserSession).where(
        UserSession.user_id == user_id,
        UserSession.ended_at.is_(None),
        UserSession.expires_at > func.clock_timestamp(),
    )
    if but is not None:
        query = query.where(UserSession.id != but)
    ended = session.execute(query.values(ended_at=func.clock_timestamp()).returning(UserSession.id))
    return len(ended.all())


def forget_sessions(session: Session, older_than_seconds: float) -> int:
    """Remove sessions that ended or ran out so long ago; returns how many."""
    until = func.clock_timestamp() - interval(older_than_seconds)
    end = func.least(UserSession.ended_at, UserSession.expires_at)
    removed = session.execute(delete(UserSession).where(end < until).returning(UserSession.id))
    return len(removed.all())
