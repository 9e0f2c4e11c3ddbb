"""What people change about accounts on the pages: the API's rules for tokens, applied to sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from sqlalchemy.orm import Session

from api.accounts import make_token
from api.problems import FORBIDDEN, ProblemError
from models import accounts
from models.audit import record
from models.roles import SCOPES, Role, Scope
from models.sessions import SessionPrincipal, end_session, end_sessions
from models.users import Principal, Token
from skipmap.client.accounts import NewToken, TokenRequest
from skipmap.errors import InvalidInput, NotFound

TokenState = Literal["valid", "expired", "revoked"]

ROLE_TEXTS: dict[Role, str] = {
    "viewer": "sees jobs, maps and nodes",
    "editor": "also submits, pauses, cancels and deletes jobs, and uploads calibration sets",
    "publisher": "also publishes maps and moves channels",
    "admin": "everything, including users and tokens",
}
SCOPE_TEXTS: dict[Scope, str] = {
    "jobs:read": "see jobs, results, calibration sets and workers",
    "jobs:write": "submit and change jobs, upload calibration sets",
    "maps:read": "see maps and nodes; fetch maps, as serving nodes do",
    "maps:publish": "publish maps and move channels",
    "nodes:report": "report what a serving node runs",
    "admin": "everything, including users and tokens",
}


def may_manage(found: SessionPrincipal) -> bool:
    """Whether a session may change its account.

    One that a token opened may not, unless the token is an administrator's: a token that allows little, or ends soon,
    could make itself one that allows more, or lasts.
    """
    return found.signed_in_with != "token" or found.principal.may("admin")


def check_may_manage(found: SessionPrincipal) -> None:
    """Raise ProblemError when the session may not change its account."""
    if not may_manage(found):
        raise ProblemError(
            FORBIDDEN,
            "you signed in with an access token, which cannot change the account; sign in with your password",
        )


def scopes_to_give(principal: Principal) -> list[Scope]:
    """What a token that the principal makes may be allowed."""
    return [scope for scope in SCOPES if principal.may(scope)]


def make_own_token(
    session: Session, principal: Principal, request: TokenRequest, request_id: str | None
) -> NewToken:
    """Make a token of one's own; raises InvalidInput for more rights than one has."""
    beyond = sorted(set(request.scopes) - set(scopes_to_give(principal)))
    if beyond:
        raise InvalidInput("scopes", f"you do not have {', '.join(beyond)} yourself; leave that out")
    return make_token(session, principal.user_id, request.model_copy(update={"user_id": None}), request_id)


def revoke_own_token(session: Session, principal: Principal, token_id: str, request_id: str | None) -> None:
    """End a token of one's own; raises NotFound for any other."""
    own_token(session, principal, token_id)
    accounts.revoke_token(session, token_id)
    record(session, principal.user_id, "token.revoke", token_id, request_id)


def own_token(session: Session, principal: Principal, token_id: str) -> Token:
    """A token of one's own; raises NotFound for any other."""
    token = session.get(Token, token_id)
    if token is None or token.user_id != principal.user_id:
        raise NotFound(f"you have no token {token_id!r}")
    return token


def end_own_session(session: Session, principal: Principal, session_id: str, request_id: str | None) -> None:
    """End a session of one's own; raises NotFound for any other."""
    end_session(session, session_id, user_id=principal.user_id)
    record(session, principal.user_id, "session.end", session_id, request_id)


def end_other_sessions(session: Session, found: SessionPrincipal, request_id: str | None) -> int:
    """End all sessions of one's own but this one; returns how many."""
    user_id = found.principal.user_id
    ended = end_sessions(session, user_id, found.session_id)
    record(session, user_id, "session.end_others", user_id, request_id, ended=ended)
    return ended


def give_identity(
    session: Session, principal: Principal, user_id: str, subject: str | None, request_id: str | None
) -> str:
    """Let an identity sign in as a user, None: nobody; returns the user's name. The principal's own session goes on.

    Raises NotFound, and Conflict when the identity is another user's.
    """
    accounts.link_oidc(session, user_id, subject, but=principal.token_id)
    record(session, principal.user_id, "user.identity", user_id, request_id, removed=subject is None)
    return accounts.find_user(session, user_id).name


def token_state(token: Token) -> TokenState:
    """Whether a token can still be used, as far as it depends on the token itself."""
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= datetime.now(UTC) else "valid"
