"""Signing in with a password or an access token, and signing out."""

from __future__ import annotations

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from api.greenlets import aside
from api.problems import ProblemError
from api.service import current_service
from models.accounts import authenticate
from models.passwords import verify
from models.sessions import SignedInWith
from skipmap.prose import sentence
from web.entrance import address_to_go_on, count_attempt, let_in, let_out, note_refusal, place_of_first_token
from web.guard import current_session, web_settings
from web.rendering import done, render
from web.routes import Pages

pages = Pages()
_WRONG = {
    "password": "No user has this name and password. Check both; capitals count.",
    "token": "This access token is unknown, expired or revoked. Copy the whole of it, or ask for a new one.",
}


@pages.get("/sign-in", access="public")
def sign_in() -> BaseResponse:
    """Forms to sign in with."""
    go_on = address_to_go_on(request.args.get("next"))
    return sign_in_form(go_on) if current_session() is None else redirect(go_on, 303)


@pages.post("/sign-in", access="public")
def sign_in_now() -> BaseResponse:
    """Sign in with what the form holds."""
    go_on = address_to_go_on(request.form.get("next"))
    way: SignedInWith = "token" if request.form.get("way") == "token" else "password"
    name = request.form.get("name", "").strip() if way == "password" else ""
    secret = request.form.get(way, "")
    errors = {}
    if way == "password" and not name:
        errors["name"] = "Enter your name."
    if not secret.strip():
        errors[way] = f"Enter your {'access token' if way == 'token' else 'password'}."
    if errors:
        return sign_in_form(go_on, errors, way=way, name=name)
    try:
        count_attempt(name)
    except ProblemError as problem:
        return too_many(problem, go_on, way=way, name=name)
    found = _by_token(secret.strip()) if way == "token" else _by_password(name, secret)
    if found is None:
        note_refusal(way, name)
        return sign_in_form(go_on, {way: _WRONG[way]}, way=way, name=name)
    user_id, token_id = found
    let_in(user_id, way, token_id)
    return redirect(go_on, 303)


@pages.post("/sign-out", access="public")
def sign_out() -> BaseResponse:
    """End the session."""
    let_out()
    answer = done("You are signed out.", url_for("sign_in"))
    # Else the way back would show what was seen last.
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


def sign_in_form(
    go_on: str,
    errors: dict[str, str] | None = None,
    *,
    status: int = 422,
    way: SignedInWith = "password",
    name: str = "",
) -> Response:
    """The page to sign in; ``go_on``: where that leads, ``status``: where there are errors."""
    settings = web_settings()
    return render(
        "sign_in/show.html",
        status=status if errors else 200,
        go_on=go_on,
        is_sent_on=go_on not in (url_for("start"), address_to_go_on(None)),
        way=way,
        name=name,
        errors=errors or {},
        first_token=place_of_first_token(),
        provider=settings.oidc_name if settings.oidc_issuer is not None else None,
    )


def too_many(
    problem: ProblemError, go_on: str, *, way: SignedInWith = "password", name: str = ""
) -> Response:
    """The page to sign in for somebody who has tried too often, and must wait."""
    status = problem.kind.status
    answer = sign_in_form(go_on, {"": sentence(problem.detail)}, status=status, way=way, name=name)
    answer.headers.update(problem.headers)
    return answer


def _by_password(name: str, password: str) -> tuple[str, None] | None:
    user = verify(current_service().database, name, password, aside=aside)
    return None if user is None else (user.id, None)


def _by_token(secret: str) -> tuple[str, str] | None:
    service = current_service()
    principal = service.database.read(authenticate, secret)
    if principal is None:
        return None
    service.uses.note(principal.use)
    return principal.user_id, principal.token_id
