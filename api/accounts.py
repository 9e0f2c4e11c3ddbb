"""Users, their tokens, and who the caller is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Response, g
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.routes import PREFIX, Answer, Routes
from api.service import current_service
from api.views import token_fields, user_view
from models import accounts
from models.accounts import Principal
from models.audit import record
from models.base import is_id
from skipmap.client.accounts import Me, NewToken, TokenRequest, TokenView, UserRequest, UserView
from skipmap.client.documents import Page
from skipmap.errors import InvalidInput, NotFound

routes = Routes("accounts")


@routes.add("GET", "/me", access="any token", answers={200: Answer("The caller", Me)})
def get_me() -> Response:
    """Who the token belongs to, and what it allows."""
    principal = current_principal()
    return json_response(
        Me(
            user_id=principal.user_id,
            user_name=principal.user_name,
            token_id=principal.token_id,
            scopes=[scope for scope in accounts.SCOPES if scope in principal.scopes],
        )
    )


@routes.add(
    "GET",
    "/tokens",
    access="any token",
    query=PageQuery,
    answers={200: Answer("A page of tokens, newest first", Page[TokenView], headers=("Link",))},
)
def get_tokens(query: PageQuery) -> Response:
    """List tokens with admin; any other token sees itself alone."""
    principal = current_principal()
    before = read_cursor(query.cursor, "tokens")
    if before is not None and not is_id(before):
        raise bad_cursor()

    def read(session: Session) -> list[TokenView]:
        only = None if principal.may("admin") else principal.token_id
        rows = accounts.list_tokens(session, limit=query.limit + 1, only=only, before=before)
        return [TokenView(**token_fields(row)) for row in rows]

    found = current_service().database.read(read)
    page = found[: query.limit]
    return page_of(page, make_cursor("tokens", page[-1].id) if len(found) > query.limit else None)


@routes.add(
    "POST",
    "/tokens",
    access="admin",
    body=TokenRequest,
    answers={201: Answer("The token; its secret is shown this once", NewToken, headers=("Location",))},
)
def create_token(body: TokenRequest) -> Response:
    """Make a token, for oneself or another user."""
    view = current_service().database.transaction(make_token, current_principal().user_id, body, g.request_id)
    return json_response(view, 201, {"Location": f"{PREFIX}/tokens/{view.id}"})


@routes.add(
    "DELETE", "/tokens/<id:token_id>", access="any token", answers={204: Answer("The token is revoked")}
)
def revoke_token(token_id: str) -> Response:
    """Revoke the token that is used; with admin, any. Other processes may take it for a few seconds more."""
    service = current_service()
    service.database.transaction(end_token, current_principal(), token_id, g.request_id)
    service.tokens.forget(token_id)
    return Response(status=204)


@routes.add(
    "GET",
    "/users",
    access="admin",
    query=PageQuery,
    answers={200: Answer("A page of users, newest first", Page[UserView], headers=("Link",))},
)
def get_users(query: PageQuery) -> Response:
    """List users."""
    before = read_cursor(query.cursor, "users")
    if before is not None and not is_id(before):
        raise bad_cursor()

    def read(session: Session) -> list[UserView]:
        return [user_view(row) for row in accounts.list_users(session, limit=query.limit + 1, before=before)]

    found = current_service().database.read(read)
    page = found[: query.limit]
    return page_of(page, make_cursor("users", page[-1].id) if len(found) > query.limit else None)


@routes.add(
    "POST",
    "/users",
    access="admin",
    body=UserRequest,
    answers={201: Answer("The new user", UserView, headers=("Location",))},
    problems=(409,),
)
def create_user(body: UserRequest) -> Response:
    """Add a user, who then can be given tokens."""
    actor, request_id = current_principal().user_id, g.request_id

    def work(session: Session) -> UserView:
        user = accounts.create_user(session, body.name)
        record(session, actor, "user.create", user.id, request_id)
        return user_view(user)

    view = current_service().database.transaction(work)
    return json_response(view, 201, {"Location": f"{PREFIX}/users/{view.id}"})


@routes.add("DELETE", "/users/<id:user_id>", access="admin", answers={204: Answer("The user is disabled")})
def disable_user(user_id: str) -> Response:
    """Disable a user: all tokens are refused from now on. What the user made stays."""
    service = current_service()
    actor, request_id = current_principal().user_id, g.request_id

    def work(session: Session) -> None:
        accounts.disable_user(session, user_id)
        record(session, actor, "user.disable", user_id, request_id)

    service.database.transaction(work)
    service.tokens.forget()
    return Response(status=204)


def make_token(
    session: Session, actor: str, request: TokenRequest, request_id: str | None = None
) -> NewToken:
    """Make a token of an administrator's choice; raises InvalidInput for an unknown user."""
    owner = actor if request.user_id is None else request.user_id
    expires_at = None
    if request.expires_in_seconds is not None:
        expires_at = datetime.now(UTC) + timedelta(seconds=request.expires_in_seconds)
    try:
        token, secret = accounts.create_token(session, owner, request.name, request.scopes, expires_at)
    except NotFound as error:
        raise InvalidInput("user_id", str(error)) from None
    record(session, actor, "token.create", token.id, request_id, scopes=token.scopes)
    return NewToken(**token_fields(token), secret=secret)


def end_token(session: Session, principal: Principal, token_id: str, request_id: str | None = None) -> None:
    """Revoke the principal's token itself, or any with admin; raises NotFound.

    Tokens of one user differ in what they may do, so the least of them must not end the others.
    """
    if not principal.may("admin") and token_id != principal.token_id:
        raise NotFound(f"no token {token_id!r} that this token may revoke")
    accounts.revoke_token(session, token_id)
    record(session, principal.user_id, "token.revoke", token_id, request_id)
