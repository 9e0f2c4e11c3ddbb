"""The account of whoever is signed in: password, sessions, tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from flask import Response, g, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from api.greenlets import aside
from api.paging import make_cursor
from api.problems import ProblemError
from api.service import current_service
from models.accounts import find_user, list_tokens
from models.audit import record
from models.passwords import HASH_BYTES, MIN_CHARACTERS, hash_password, set_password, verify
from models.sessions import SessionPrincipal, UserSession, sessions_of
from models.users import Token, User
from skipmap.client.accounts import NewToken
from skipmap.errors import InvalidInput
from skipmap.prose import sentence
from web import once
from web.accounts import (
    ROLE_TEXTS,
    SCOPE_TEXTS,
    TokenState,
    check_may_manage,
    end_other_sessions,
    end_own_session,
    make_own_token,
    may_manage,
    own_token,
    revoke_own_token,
    scopes_to_give,
    token_state,
)
from web.agents import browser
from web.asked import place_asked
from web.entrance import count_password_of
from web.forms.token import LIFETIMES, SENT_BEFORE, TokenForm, read_token_form, scope_choices
from web.guard import current_session, web_settings
from web.rendering import done, render
from web.routes import Pages

pages = Pages()
_WAYS = {"password": "a password", "token": "an access token", "oidc": "single sign-on"}
_TOKENS_A_PAGE = 50
_TOKENS = "own tokens"


@dataclass(frozen=True)
class _SessionSeen:
    """A session as its owner sees it."""

    row: UserSession
    browser: str
    way: str
    is_this: bool


@dataclass(frozen=True)
class _TokenSeen:
    """A token as its owner sees it."""

    row: Token
    state: TokenState


@pages.get("/account", access="signed in")
def show_account() -> Response:
    """Who is signed in, what they may do, from where, and with which tokens."""
    return _account({})


@pages.post("/account/password", access="signed in")
def change_password() -> BaseResponse:
    """Change one's own password; other sessions end."""
    found = _managing()
    database = current_service().database
    user = database.read(find_user, found.principal.user_id)
    old, new = request.form.get("old", ""), request.form.get("new", "")
    try:
        count_password_of(user.id)
    except ProblemError as problem:
        answer = _account({"old": sentence(problem.detail)}, status=problem.kind.status)
        answer.headers.update(problem.headers)
        return answer
    errors: dict[str, str] = {}
    if user.password_hash is not None and verify(database, user.name, old, aside=aside) is None:
        errors["old"] = "This is not your present password."
    if new != request.form.get("again", ""):
        errors["again"] = "The two differ; type the new password twice."
    try:
        hashed = aside(lambda: hash_password(user.name, new), HASH_BYTES)
    except InvalidInput as error:
        errors["new"] = sentence(error.problem)
    if errors:
        return _account(errors, status=422)

    def work(session: Session) -> None:
        set_password(session, user.id, hashed, but=found.session_id)
        record(session, user.id, "user.password", user.id, g.request_id)

    database.transaction(work)
    return done("Your password is changed. Your other sessions have ended.", url_for("show_account"))


@pages.post("/account/sessions/<id:session_id>/end", access="signed in")
def end_session_of_mine(session_id: str) -> BaseResponse:
    """End one of one's own sessions."""
    found = _managing()
    current_service().database.transaction(end_own_session, found.principal, session_id, g.request_id)
    return done("The session has ended.", url_for("show_account"))


@pages.post("/account/sessions/end-others", access="signed in")
def end_my_other_sessions() -> BaseResponse:
    """End all of one's own sessions but this one."""
    ended = current_service().database.transaction(end_other_sessions, _managing(), g.request_id)
    text = "There was no other session." if ended == 0 else "All your other sessions have ended."
    return done(text, url_for("show_account"))


@pages.get("/account/tokens/new", access="signed in")
def new_token() -> Response:
    """A form for a token of one's own."""
    _managing()
    return _token_form(TokenForm())


@pages.post("/account/tokens", access="signed in")
def make_my_token() -> BaseResponse:
    """Make a token of one's own and show its secret, this once."""
    found = _managing()
    typed, asked = read_token_form()
    if asked is None:
        return _token_form(typed)
    if not once.is_first():
        return done(SENT_BEFORE, url_for("show_account"), kind="warning")
    try:
        made = current_service().database.transaction(make_own_token, found.principal, asked, g.request_id)
    except InvalidInput as error:
        return _token_form(typed.with_errors({error.field: error.problem}))
    return token_made(made, url_for("show_account"))


@pages.get("/account/tokens/<id:token_id>/revoke", access="signed in")
def confirm_revoke_my_token(token_id: str) -> Response:
    """Ask before a token of one's own is revoked."""
    found = _managing()
    token = current_service().database.read(own_token, found.principal, token_id)
    return render(
        "account/revoke.html",
        token=token,
        holder=None,
        action=url_for("revoke_my_token", token_id=token_id),
        back=url_for("show_account"),
        danger=True,
    )


@pages.post("/account/tokens/<id:token_id>/revoke", access="signed in")
def revoke_my_token(token_id: str) -> BaseResponse:
    """Revoke a token of one's own."""
    service = current_service()
    service.database.transaction(revoke_own_token, _managing().principal, token_id, g.request_id)
    service.tokens.forget(token_id)
    return done("The token is revoked.", url_for("show_account"))


def token_made(made: NewToken, back: str, holder: str | None = None) -> Response:
    """The page that shows a new token's secret; ``holder``: whose it is, unless one's own."""
    response = render("account/token_made.html", status=201, token=made, back=back, holder=holder)
    response.headers["Cache-Control"] = "no-store"
    return response


def _account(errors: dict[str, str], *, status: int = 200) -> Response:
    found = cast(SessionPrincipal, current_session())
    user_id = found.principal.user_id
    before = place_asked(_TOKENS)

    def read(session: Session) -> tuple[User, list[_SessionSeen], list[_TokenSeen]]:
        sessions = [
            _SessionSeen(row, browser(row.agent), _WAYS[row.signed_in_with], row.id == found.session_id)
            for row in sessions_of(session, user_id, web_settings().session_idle_seconds)
        ]
        rows = list_tokens(session, limit=_TOKENS_A_PAGE + 1, user_id=user_id, before=before)
        tokens = [_TokenSeen(row, token_state(row)) for row in rows]
        return find_user(session, user_id), sessions, tokens

    user, sessions, tokens = current_service().database.read(read)
    page = tokens[:_TOKENS_A_PAGE]
    return render(
        "account/show.html",
        status=status,
        user=user,
        role_text=ROLE_TEXTS[user.role],
        way=_WAYS[found.signed_in_with],
        rights=[(scope, SCOPE_TEXTS[scope]) for scope in scopes_to_give(found.principal)],
        may_manage=may_manage(found),
        least_characters=MIN_CHARACTERS,
        sessions=sessions,
        tokens=page,
        next_cursor=make_cursor(_TOKENS, page[-1].row.id) if len(tokens) > _TOKENS_A_PAGE else None,
        is_first=before is None,
        errors=errors,
    )


def _token_form(typed: TokenForm) -> Response:
    scopes = scopes_to_give(cast(SessionPrincipal, current_session()).principal)
    return render(
        "account/new_token.html",
        status=422 if typed.errors else 200,
        form=typed,
        choices=scope_choices(scopes),
        lifetimes=LIFETIMES,
        mark=once.new_mark(),
    )


def _managing() -> SessionPrincipal:
    """The session of the request, which may change the account; raises ProblemError."""
    found = cast(SessionPrincipal, current_session())
    check_may_manage(found)
    return found
