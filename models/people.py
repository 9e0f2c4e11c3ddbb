"""People: users and tokens with what an administrator wants to see beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, Select, func, or_, select
from sqlalchemy.orm import Session

from models.base import clean
from models.errors import NotFound
from models.sessions import UserSession, can_be_used
from models.users import Token, User


@dataclass(frozen=True)
class Person:
    """A user; ``seen_at``: of the last request with a session or token, within a minute."""

    user: User
    seen_at: datetime | None
    sessions: int
    tokens: int
    """Sessions that can be used, and tokens that are valid."""


@dataclass(frozen=True)
class HeldToken:
    """A token with who holds it."""

    token: Token
    holder: User


def list_people(
    session: Session, idle_seconds: float, *, limit: int, before: str | None = None, name: str | None = None
) -> Sequence[Person]:
    """A page of users, newest first; ``before``: id of the last one of the page before; ``name``: part of a name.

    ``idle_seconds``: a session that is not used for so long is over.
    """
    query = _people(idle_seconds).order_by(User.id.desc()).limit(limit)
    if name is not None:
        query = query.where(User.name.icontains(clean(name), autoescape=True))
    if before is not None:
        query = query.where(User.id < before)
    return [_person(row) for row in session.execute(query)]


def find_person(session: Session, user_id: str, idle_seconds: float) -> Person:
    """One user, as ``list_people`` shows them; raises NotFound."""
    row = session.execute(_people(idle_seconds).where(User.id == user_id)).first()
    if row is None:
        raise NotFound(f"no user {user_id!r}")
    return _person(row)


def list_held_tokens(
    session: Session, *, limit: int, before: str | None = None, holder: str | None = None
) -> Sequence[HeldToken]:
    """A page of tokens, newest first; ``before``: id of the last one of the page before; ``holder``: a user's name."""
    query = select(Token, User).join(User, User.id == Token.user_id).order_by(Token.id.desc()).limit(limit)
    if holder is not None:
        query = query.where(User.name == clean(holder))
    if before is not None:
        query = query.where(Token.id < before)
    return [HeldToken(*row) for row in session.execute(query)]


def find_held_token(session: Session, token_id: str) -> HeldToken:
    """One token; raises NotFound."""
    row = session.execute(
        select(Token, User).join(User, User.id == Token.user_id).where(Token.id == token_id)
    ).first()
    if row is None:
        raise NotFound(f"no token {token_id!r}")
    return HeldToken(*row)


def _person(row: Row[User, datetime | None, int, int]) -> Person:
    user, seen_at, sessions, tokens = row
    return Person(user, seen_at, sessions, tokens)


def _people(idle_seconds: float) -> Select[User, datetime | None, int, int]:
    now = func.clock_timestamp()
    seen = select(func.max(UserSession.seen_at)).where(UserSession.user_id == User.id).scalar_subquery()
    used = select(func.max(Token.last_used_at)).where(Token.user_id == User.id).scalar_subquery()
    sessions = (
        select(func.count())
        .where(UserSession.user_id == User.id, can_be_used(idle_seconds))
        .scalar_subquery()
    )
    tokens = (
        select(func.count())
        .where(
            Token.user_id == User.id,
            Token.revoked_at.is_(None),
            or_(Token.expires_at.is_(None), Token.expires_at > now),
        )
        .scalar_subquery()
    )
    # The greatest of both where there are both, else the one that there is.
    return select(User, func.greatest(seen, used), sessions, tokens)
