"""Users, their tokens, and who the caller is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Response, g
from pydantic import Field
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.greenlets import aside
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.routes import PREFIX, Answer, Routes
from api.service import Service, current_service
from api.views import token_fields, user_view
from models import accounts
from models.accounts import Principal
from models.audit import record
from models.base import is_id
from models.passwords import HASH_BYTES, PasswordHash, hash_password, set_password
from skipmap.client.accounts import Me, NewToken, TokenRequest, TokenView, UserChange, UserRequest, UserView
from skipmap.client.documents import Page
from skipmap.errors import InvalidInput, NotFound

routes = Routes("accounts")


class UsersQuery(PageQuery):
    """Which users."""

    name: str | None = Field(default=None, min_length=1, description="Only the one of this name.")


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
    query=UsersQuery,
    answers={200: Answer("A page of users, newest first", Page[UserView], headers=("Link",))},
)
def get_users(query: UsersQuery) -> Response:
    """List users."""
    before = read_cursor(query.cursor, "users")
    if before is not None and not is_id(before):
        raise bad_cursor()

    def read(session: Session) -> list[UserView]:
        rows = accounts.list_users(session, limit=query.limit + 1, before=before, name=query.name)
        return [user_view(row) for row in rows]

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
    """Add a user, who then can sign in with the password, or be given tokens."""
    view = add_user(current_service(), current_principal(), body, g.request_id)
    return json_response(view, 201, {"Location": f"{PREFIX}/users/{view.id}"})


@routes.add(
    "PATCH",
    "/users/<id:user_id>",
    access="admin",
    body=UserChange,
    answers={200: Answer("The user", UserView)},
    problems=(409,),
)
def change_user(user_id: str, body: UserChange) -> Response:
    """Change a user's role or password, disable or enable; 409 when nobody would be left to administrate.

    A new password, a lesser role and disabling end the user's sessions. Tokens keep their scopes.
    """
    return json_response(alter_user(current_service(), current_principal(), user_id, body, g.request_id))


@routes.add(
    "DELETE",
    "/users/<id:user_id>",
    access="admin",
    answers={204: Answer("The user is disabled")},
    problems=(409,),
)
def disable_user(user_id: str) -> Response:
    """Disable a user: tokens and sessions are refused from now on. What the user made stays."""
    alter_user(current_service(), current_principal(), user_id, UserChange(disabled=True), g.request_id)
    return Response(status=204)


def add_user(
    service: Service, principal: Principal, request: UserRequest, request_id: str | None = None
) -> UserView:
    """Add a user; raises InvalidInput for a bad password, and Conflict when the name is taken."""
    password = None if request.password is None else _hashed(request.name, request.password)

    def work(session: Session) -> UserView:
        user = accounts.create_user(session, request.name, role=request.role)
        if password is not None:
            set_password(session, user.id, password)
        record(session, principal.user_id, "user.create", user.id, request_id, role=user.role)
        return user_view(user)

    return service.database.transaction(work)


def alter_user(
    service: Service,
    principal: Principal,
    user_id: str,
    change: UserChange,
    request_id: str | None = None,
) -> UserView:
    """Change a user, all of it or nothing; the session that the principal makes the request in goes on.

    Raises InvalidInput for a bad password or when nothing is to change, NotFound, and Conflict for the last
    administrator.
    """
    sets_password = "password" in change.model_fields_set
    if change.role is None and change.disabled is None and not sets_password:
        raise InvalidInput("body", "nothing is to change; give role, password or disabled")
    password = None
    if change.password is not None:
        name = service.database.read(accounts.find_user, user_id).name
        password = _hashed(name, change.password)

    def work(session: Session) -> UserView:
        def note(action: str, **detail: str | bool) -> None:
            record(session, principal.user_id, f"user.{action}", user_id, request_id, **detail)

        if change.role is not None:
            accounts.set_role(session, user_id, change.role, but=principal.token_id)
            note("role", role=change.role)
        if sets_password:
            set_password(session, user_id, password, but=principal.token_id)
            note("password", removed=password is None)
        if change.disabled is not None:
            (accounts.disable_user if change.disabled else accounts.enable_user)(session, user_id)
            note("disable" if change.disabled else "enable")
        return user_view(accounts.find_user(session, user_id))

    view = service.database.transaction(work)
    if change.disabled is not None:
        service.tokens.forget()
    return view


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


def _hashed(user_name: str, password: str) -> PasswordHash:
    return aside(lambda: hash_password(user_name, password), HASH_BYTES)
