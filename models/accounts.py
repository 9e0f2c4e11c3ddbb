"""Users and their tokens. A token is shown once; only its hash is stored."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from models.base import interval, new_id
from models.errors import Conflict
from models.roles import ROLES, SCOPES, Role, Scope
from models.sessions import end_sessions
from models.users import Principal, Token, Use, User, hash_secret
from skipmap.errors import InvalidInput, NotFound, choices

__all__ = [
    "SCOPES",
    "Principal",
    "Scope",
    "Token",
    "User",
    "all_tokens",
    "authenticate",
    "create_token",
    "create_user",
    "disable_user",
    "enable_user",
    "find_user",
    "link_oidc",
    "list_tokens",
    "list_users",
    "revoke_token",
    "set_role",
    "user_by_oidc",
]

_PREFIX = "skm_"
_SECRET_BYTES = 32
_SHOWN_CHARACTERS = 12
_USE_NOTED_SECONDS = 60
_ADMINS_LOCK = 0x736B6972


def create_user(
    session: Session, name: str, *, role: Role = "viewer", oidc_subject: str | None = None
) -> User:
    """Add a user; raises Conflict when the name is taken, or the identity by another user."""
    _check_role(role)
    added = session.scalars(
        insert(User)
        .values(id=new_id(), name=name, role=role, oidc_subject=oidc_subject)
        .on_conflict_do_nothing()
        .returning(User)
    ).first()
    if added is not None:
        return added
    if oidc_subject is not None and user_by_oidc(session, oidc_subject) is not None:
        raise _identity_taken(oidc_subject)
    raise Conflict(f"the user name {name!r} is taken; choose another", "exists")


def find_user(session: Session, user_id: str) -> User:
    """A user, also a disabled one; raises NotFound."""
    found = session.get(User, user_id)
    if found is None:
        raise NotFound(f"no user {user_id!r}")
    return found


def user_by_oidc(session: Session, subject: str) -> User | None:
    """Who the identity provider's subject is here, also when disabled."""
    return session.scalars(select(User).where(User.oidc_subject == subject)).first()


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
    find_user(session, user_id)
    secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    token = Token(
        id=new_id(),
        user_id=user_id,
        name=name,
        prefix=secret[:_SHOWN_CHARACTERS],
        sha256=hash_secret(secret),
        scopes=sorted(set(scopes)),
        expires_at=expires_at,
    )
    session.add(token)
    session.flush()
    return token, secret


def authenticate(session: Session, secret: str) -> Principal | None:
    """Who holds the secret, or None when it is unknown, expired or revoked or the user is disabled; reads only."""
    now = func.clock_timestamp()
    long_ago = or_(Token.last_used_at.is_(None), Token.last_used_at < now - interval(_USE_NOTED_SECONDS))
    row = session.execute(
        select(Token, User, long_ago)
        .join(User, User.id == Token.user_id)
        .where(
            # The hash of 256 random bits tells nothing by how far a comparison gets.
            Token.sha256 == hash_secret(secret),
            Token.revoked_at.is_(None),
            or_(Token.expires_at.is_(None), Token.expires_at > now),
            User.disabled_at.is_(None),
        )
    ).first()
    if row is None:
        return None
    token, user, unnoted = row
    use = Use("token", token.id, token.last_used_at) if unnoted else None
    return Principal(user.id, user.name, token.id, frozenset(token.scopes), use)


def all_tokens(session: Session) -> Sequence[Token]:
    """Tokens of all users, newest first."""
    return session.scalars(select(Token).order_by(Token.id.desc())).all()


def list_tokens(
    session: Session,
    *,
    limit: int,
    only: str | None = None,
    user_id: str | None = None,
    before: str | None = None,
) -> Sequence[Token]:
    """A page of tokens, newest first, of all or of one user, or one by its id.

    ``before``: id of the last one of the page before.
    """
    query = select(Token).order_by(Token.id.desc()).limit(limit)
    if user_id is not None:
        query = query.where(Token.user_id == user_id)
    if only is not None:
        query = query.where(Token.id == only)
    return session.scalars(query if before is None else query.where(Token.id < before)).all()


def list_users(
    session: Session, *, limit: int, before: str | None = None, name: str | None = None
) -> Sequence[User]:
    """A page of users, newest first, or the one of a name; ``before``: id of the last one of the page before."""
    query = select(User).order_by(User.id.desc()).limit(limit)
    if name is not None:
        query = query.where(User.name == name)
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


def set_role(session: Session, user_id: str, role: Role, *, but: str | None = None) -> User:
    """Change what sessions of a user may do; tokens keep their scopes. Raises InvalidInput and NotFound.

    A lesser role ends the user's sessions, all but the one with the id ``but``. Raises Conflict when the last
    administrator would lose the role.
    """
    _check_role(role)
    user = _held(session, user_id)
    if user.role == "admin" and role != "admin":
        _check_not_last(session, user)
    if ROLES.index(role) < ROLES.index(user.role):
        end_sessions(session, user_id, but)
    user.role = role
    session.flush()
    return user


def link_oidc(session: Session, user_id: str, subject: str | None, *, but: str | None = None) -> None:
    """Let an identity sign in as the user, None: nobody. Raises NotFound, and Conflict when it is another user's.

    The user's sessions end, all but the one with the id ``but``: whoever had the identity before may have opened them.
    """
    user = _held(session, user_id)
    if user.oidc_subject == subject:
        return
    user.oidc_subject = subject
    try:
        session.flush()
    except IntegrityError as error:
        raise _identity_taken(subject) from error
    end_sessions(session, user_id, but)


def disable_user(session: Session, user_id: str) -> None:
    """Refuse all tokens of a user from now on, and end all sessions; raises NotFound, and Conflict for the last admin.

    Disabling twice changes nothing.
    """
    user = _held(session, user_id)
    if user.disabled_at is not None:
        return
    _check_not_last(session, user)
    session.execute(update(User).where(User.id == user_id).values(disabled_at=func.clock_timestamp()))
    end_sessions(session, user_id)


def enable_user(session: Session, user_id: str) -> None:
    """Take a user's tokens and sign-ins again; raises NotFound. Sessions that were ended stay so."""
    _held(session, user_id)
    session.execute(update(User).where(User.id == user_id).values(disabled_at=None))


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidInput("role", f"{role!r} given; allowed are {', '.join(ROLES)}")


def _identity_taken(subject: str | None) -> Conflict:
    return Conflict(f"the identity {subject!r} is another user's; unlink it there first", "exists")


def _held(session: Session, user_id: str) -> User:
    """The user as the last change has left it; until this transaction ends nobody else changes users' rights."""
    # Else two administrators could each see the other one in office, and both be gone.
    session.execute(select(func.pg_advisory_xact_lock(_ADMINS_LOCK)))
    found = session.get(User, user_id, with_for_update={"key_share": True}, populate_existing=True)
    if found is None:
        raise NotFound(f"no user {user_id!r}")
    return found


def _check_not_last(session: Session, user: User) -> None:
    """Raise Conflict when the user is an administrator, and no other one is left."""
    admins = session.scalars(select(User.id).where(_is_admin())).all()
    if list(admins) == [user.id]:
        raise Conflict(
            f"{user.name!r} is the last administrator; give somebody else the role admin first", "last-admin"
        )


def _is_admin() -> ColumnElement[bool]:
    token = exists().where(
        Token.user_id == User.id,
        Token.scopes.contains(["admin"]),
        Token.revoked_at.is_(None),
        or_(Token.expires_at.is_(None), Token.expires_at > func.clock_timestamp()),
    )
    return and_(User.disabled_at.is_(None), or_(User.role == "admin", token))
