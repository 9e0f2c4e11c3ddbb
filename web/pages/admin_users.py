"""Administration of users: all of them, a new one, and what may be changed about one."""

from __future__ import annotations

from typing import Any, cast

from flask import Response, g, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from api.accounts import alter_user
from api.auth import current_principal
from api.paging import make_cursor
from api.requests import validated
from api.service import current_service
from models.errors import Conflict
from models.passwords import MIN_CHARACTERS
from models.people import find_person, list_people
from skipmap.client.accounts import UserChange, UserView
from skipmap.errors import InvalidInput
from skipmap.prose import sentence
from web import once
from web.accounts import ROLE_TEXTS, give_identity
from web.asked import place_asked
from web.forms.user import UserForm, add_user_of, random_password, read_user_form, subject_of
from web.guard import web_settings
from web.rendering import done, render
from web.routes import Pages

pages = Pages(section="admin")
_USERS_A_PAGE = 50
_SENT_BEFORE = (
    "This form was sent before. A password that it made is shown only once; set a new one if it is lost."
)
_ROLES = [(role, f"{role}: {text}") for role, text in ROLE_TEXTS.items()]


@pages.get("/admin/users", access="admin")
def show_users() -> Response:
    """All users, newest first."""
    before = place_asked("people")
    name = request.args.get("name", "").strip()
    found = current_service().database.read(
        list_people,
        web_settings().session_idle_seconds,
        limit=_USERS_A_PAGE + 1,
        before=before,
        name=name or None,
    )
    page = found[:_USERS_A_PAGE]
    return render(
        "admin/users.html",
        people=page,
        name=name,
        provider=_provider_name(),
        next_cursor=make_cursor("people", page[-1].user.id) if len(found) > _USERS_A_PAGE else None,
        is_first=before is None,
    )


@pages.get("/admin/users/new", access="admin")
def new_user() -> Response:
    """A form for a new user."""
    return _form(UserForm())


@pages.post("/admin/users", access="admin")
def add_user_now() -> BaseResponse:
    """Add a user, and show the password where one was made."""
    typed = read_user_form()
    if typed.errors:
        return _form(typed)
    if not once.is_first():
        return done(_SENT_BEFORE, url_for("show_users"), kind="warning")
    try:
        name, password = add_user_of(typed, current_principal(), g.request_id)
    except Conflict as error:
        return _form(typed.with_errors({"": sentence(str(error))}))
    except InvalidInput as error:
        return _form(typed.with_errors({error.field: sentence(error.problem)}))
    return (
        done(f"{name} is added.", url_for("show_users"))
        if password is None
        else _password_made(name, password)
    )


@pages.get("/admin/users/<id:user_id>/role", access="admin")
def confirm_role(user_id: str) -> Response:
    """Ask which role a user is to have."""
    return _dialog("role", user_id)


@pages.post("/admin/users/<id:user_id>/role", access="admin")
def change_role(user_id: str) -> BaseResponse:
    """Change what a user may do."""
    try:
        user = _alter(user_id, {"role": request.form.get("role", "")})
    except Conflict as error:
        return _dialog("role", user_id, {"role": sentence(str(error))})
    # Who is no administrator any more may not see the users.
    is_own_loss = user.id == current_principal().user_id and user.role != "admin"
    return done(
        f"{user.name} has the role {user.role} now.", url_for("show_account" if is_own_loss else "show_users")
    )


@pages.get("/admin/users/<id:user_id>/password", access="admin")
def confirm_password(user_id: str) -> Response:
    """Ask for a new password of a user's."""
    return _dialog("password", user_id)


@pages.post("/admin/users/<id:user_id>/password", access="admin")
def set_password_of(user_id: str) -> BaseResponse:
    """Set the password of a user, whose sessions end."""
    given = request.form.get("password", "")
    if not given and not once.is_first():
        return done(_SENT_BEFORE, url_for("show_users"), kind="warning")
    password = given or random_password()
    try:
        user = _alter(user_id, {"password": password})
    except InvalidInput as error:
        return _dialog("password", user_id, {error.field: sentence(error.problem)})
    if given:
        return done(f"The password of {user.name} is set.", url_for("show_users"))
    return _password_made(user.name, password)


@pages.get("/admin/users/<id:user_id>/identity", access="admin")
def confirm_identity(user_id: str) -> Response:
    """Ask which identity at the provider may sign in as a user."""
    return _dialog("identity", user_id)


@pages.post("/admin/users/<id:user_id>/identity", access="admin")
def set_identity_of(user_id: str) -> BaseResponse:
    """Let an identity sign in as a user, or none any more."""
    given = request.form.get("identity", "").strip()
    try:
        subject = subject_of(given) if given else None
        name = current_service().database.transaction(
            give_identity, current_principal(), user_id, subject, g.request_id
        )
    except InvalidInput as error:
        return _dialog("identity", user_id, {error.field: sentence(error.problem)})
    except Conflict as error:
        return _dialog("identity", user_id, {"identity": sentence(str(error))})
    text = (
        f"No identity signs in as {name} any more."
        if subject is None
        else f"The identity signs in as {name} now."
    )
    return done(text, url_for("show_users"))


@pages.get("/admin/users/<id:user_id>/disable", access="admin")
def confirm_disable(user_id: str) -> Response:
    """Ask before a user is shut out."""
    return _dialog("disable", user_id)


@pages.post("/admin/users/<id:user_id>/disable", access="admin")
def disable_user_now(user_id: str) -> BaseResponse:
    """Shut a user out: sessions end, tokens are refused."""
    try:
        user = _alter(user_id, {"disabled": True})
    except Conflict as error:
        return _dialog("disable", user_id, {"": sentence(str(error))})
    return done(f"{user.name} is disabled.", url_for("show_users"))


@pages.get("/admin/users/<id:user_id>/enable", access="admin")
def confirm_enable(user_id: str) -> Response:
    """Ask before a user is let in again."""
    return _dialog("enable", user_id)


@pages.post("/admin/users/<id:user_id>/enable", access="admin")
def enable_user_now(user_id: str) -> BaseResponse:
    """Let a user in again."""
    user = _alter(user_id, {"disabled": False})
    return done(f"{user.name} is enabled.", url_for("show_users"))


def _alter(user_id: str, change: dict[str, Any]) -> UserView:
    """Change a user as the API does; raises InvalidInput, NotFound, and Conflict for the last administrator."""
    asked = cast(UserChange, validated(UserChange, change))
    return alter_user(current_service(), current_principal(), user_id, asked, g.request_id)


def _provider_name() -> str | None:
    """What the provider is called where people may sign in at one."""
    settings = web_settings()
    return None if settings.oidc_issuer is None else settings.oidc_name


def _form(typed: UserForm) -> Response:
    return render(
        "admin/new_user.html",
        status=422 if typed.errors else 200,
        form=typed,
        roles=_ROLES,
        provider=_provider_name(),
        least_characters=MIN_CHARACTERS,
        mark=once.new_mark(),
    )


def _dialog(what: str, user_id: str, errors: dict[str, str] | None = None) -> Response:
    """A question about a user; its form goes to the address that it is shown at."""
    person = current_service().database.read(find_person, user_id, web_settings().session_idle_seconds)
    return render(
        f"admin/user_{what}.html",
        status=422 if errors else 200,
        person=person,
        is_self=person.user.id == current_principal().user_id,
        roles=_ROLES,
        provider=_provider_name(),
        least_characters=MIN_CHARACTERS,
        mark=once.new_mark(),
        errors=errors or {},
        action=url_for(f"confirm_{what}", user_id=user_id),
        back=url_for("show_users"),
        danger=what == "disable",
    )


def _password_made(name: str, password: str) -> Response:
    response = render("admin/password_made.html", status=201, name=name, password=password)
    response.headers["Cache-Control"] = "no-store"
    return response
