"""Administration of access tokens: all of them, a new one for anybody, revoking any."""

from __future__ import annotations

from flask import Response, g, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from api.accounts import end_token, make_token
from api.auth import current_principal
from api.paging import make_cursor
from api.service import current_service
from models.accounts import list_users
from models.base import clean
from models.people import HeldToken, find_held_token, list_held_tokens
from models.roles import SCOPES
from skipmap.client.accounts import NewToken
from skipmap.errors import InvalidInput
from web import once
from web.accounts import token_state
from web.asked import place_asked
from web.forms.token import LIFETIMES, SENT_BEFORE, TokenForm, read_token_form, scope_choices
from web.pages.account import token_made
from web.rendering import done, render
from web.routes import Pages

pages = Pages(section="admin")
_TOKENS_A_PAGE = 50
_MOST_OFFERED = 200
"""Names of users that the form offers; any other can be typed."""


@pages.get("/admin/tokens", access="admin")
def show_tokens() -> Response:
    """All tokens, newest first."""
    before = place_asked("held tokens")
    holder = request.args.get("user", "").strip()
    found = current_service().database.read(
        list_held_tokens, limit=_TOKENS_A_PAGE + 1, before=before, holder=holder or None
    )
    page = found[:_TOKENS_A_PAGE]
    has_more = len(found) > _TOKENS_A_PAGE
    return render(
        "admin/tokens.html",
        tokens=[(held, _standing(held)) for held in page],
        holder=holder,
        next_cursor=make_cursor("held tokens", page[-1].token.id) if has_more else None,
        is_first=before is None,
    )


@pages.get("/admin/tokens/new", access="admin")
def new_token_for() -> Response:
    """A form for a token of anybody's."""
    user = request.args.get("user", "").strip() or current_principal().user_name
    return _form(TokenForm(user=user))


@pages.post("/admin/tokens", access="admin")
def make_token_for() -> BaseResponse:
    """Make a token for somebody and show its secret, this once."""
    typed, asked = read_token_form()
    if asked is None:
        return _form(typed)
    if not once.is_first():
        return done(SENT_BEFORE, url_for("show_tokens"), kind="warning")
    actor, request_id = current_principal().user_id, g.request_id

    def work(session: Session) -> NewToken | None:
        users = list_users(session, limit=1, name=clean(typed.user))
        if not users:
            return None
        return make_token(session, actor, asked.model_copy(update={"user_id": users[0].id}), request_id)

    try:
        made = current_service().database.transaction(work)
    except InvalidInput as error:
        return _form(typed.with_errors({error.field: error.problem}))
    if made is None:
        return _form(typed.with_errors({"user": "There is no user of this name. Add the user first."}))
    return token_made(made, url_for("show_tokens"), typed.user)


@pages.get("/admin/tokens/<id:token_id>/revoke", access="admin")
def confirm_revoke_token(token_id: str) -> Response:
    """Ask before a token is revoked."""
    held = current_service().database.read(find_held_token, token_id)
    return render(
        "account/revoke.html",
        token=held.token,
        holder=held.holder.name,
        action=url_for("revoke_token", token_id=token_id),
        back=url_for("show_tokens"),
        danger=True,
    )


@pages.post("/admin/tokens/<id:token_id>/revoke", access="admin")
def revoke_token(token_id: str) -> BaseResponse:
    """Revoke a token."""
    service = current_service()
    service.database.transaction(end_token, current_principal(), token_id, g.request_id)
    service.tokens.forget(token_id)
    return done("The token is revoked.", url_for("show_tokens"))


def _form(typed: TokenForm) -> Response:
    users = current_service().database.read(list_users, limit=_MOST_OFFERED)
    return render(
        "admin/new_token.html",
        status=422 if typed.errors else 200,
        form=typed,
        users=sorted(user.name for user in users if user.disabled_at is None),
        choices=scope_choices(list(SCOPES)),
        lifetimes=LIFETIMES,
        mark=once.new_mark(),
    )


def _standing(held: HeldToken) -> str:
    """Whether a token can be used: its own state, unless its user is disabled."""
    state = token_state(held.token)
    return "disabled" if state == "valid" and held.holder.disabled_at is not None else state
