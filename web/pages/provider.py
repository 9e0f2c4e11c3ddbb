"""Signing in at an OpenID Connect provider: there and back."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from flask import g, redirect, request, session, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from api.problems import ProblemError
from api.service import current_service
from models.accounts import create_user, user_by_oidc
from models.audit import record
from models.errors import Conflict
from models.roles import Role
from models.users import User
from skipmap.errors import InvalidInput
from skipmap.prose import sentence
from web.entrance import address_to_go_on, count_attempt, let_in, note_refusal
from web.guard import web_settings
from web.pages.sign_in import sign_in_form, too_many
from web.rendering import render
from web.routes import Pages

if TYPE_CHECKING:
    from web.oidc import Attempt, Provider

pages = Pages(section="sign_in")
_PENDING = "oidc"
_MOST_PENDING = 3
"""Sign-ins that one browser may have on their way, in several tabs."""
_PENDING_SECONDS = 600
_KEPT_CHARACTERS = 500
_NAME_CHARACTERS = 90
_MARK_CHARACTERS = 6


@pages.get("/sign-in/provider", access="public")
def sign_in_at_provider() -> BaseResponse:
    """Send the browser to the provider."""
    # A link and no form: our own policy also forbids other sites to those that a form is sent on to.
    provider = _provider()
    from web.issuer import OidcFailed

    go_on = address_to_go_on(request.args.get("next"))
    try:
        count_attempt()
        address, attempt = provider.begin(url_for("return_from_provider", _external=True))
    except ProblemError as problem:
        return too_many(problem, go_on)
    except OidcFailed as failed:
        return sign_in_form(go_on, {"": sentence(str(failed))}, status=503)
    _keep(attempt, go_on)
    return redirect(address, 303)


@pages.get("/sign-in/return", access="public")
def return_from_provider() -> BaseResponse:
    """Let in who comes back from the provider."""
    provider = _provider()
    from web.issuer import OidcFailed, ProviderAway
    from web.oidc import first_role

    kept = _take(request.args.get("state", ""))
    if kept is None:
        text = (
            "This sign-in was begun in another browser, has been used already, or took too long. Begin again."
        )
        return sign_in_form(address_to_go_on(None), {"": text}, status=403)
    # It was counted when it began; what is used up by now could not be tried again.
    attempt, go_on = kept
    try:
        who = provider.finish(
            url_for("return_from_provider", _external=True), attempt, request.args.to_dict()
        )
    except OidcFailed as failed:
        note_refusal("oidc")
        status = 503 if isinstance(failed, ProviderAway) else 403
        return sign_in_form(go_on, {"": sentence(str(failed))}, status=status)
    user = current_service().database.transaction(
        find_or_add, who.subject, who.names, first_role(web_settings()), g.request_id
    )
    if user is None or user.disabled_at is not None:
        note_refusal("oidc", "" if user is None else user.name)
        return render(
            "sign_in/refused.html",
            status=403,
            is_disabled=user is not None,
            subject=who.subject,
            names=who.names,
            provider=provider.name,
        )
    let_in(user.id, "oidc")
    return redirect(go_on, 303)


def find_or_add(
    database: Session, subject: str, names: tuple[str, ...], role: Role | None, request_id: str | None
) -> User | None:
    """Whose identity it is, a new user where it is nobody's; None when new users are not taken."""
    found = user_by_oidc(database, subject)
    if found is not None or role is None:
        return found
    base = names[0][:_NAME_CHARACTERS] if names else "user"
    # Never the user who has the name: whoever may choose names at the provider could become anybody here.
    mark = hashlib.sha256(subject.encode()).hexdigest()[:_MARK_CHARACTERS]
    for name in (base, f"{base} {mark}"):
        try:
            added = create_user(database, name, role=role, oidc_subject=subject)
        except Conflict:
            # Somebody else's name, or this very identity in another tab.
            if (found := user_by_oidc(database, subject)) is not None:
                return found
        else:
            record(database, added.id, "user.create", added.id, request_id, role=role, way="oidc")
            return added
    raise Conflict(f"the names {base!r} and '{base} {mark}' are taken; an administrator must help", "exists")


def _provider() -> Provider:
    try:
        from web.oidc import current_provider
    except ImportError:
        raise InvalidInput(
            "SKIPMAP_OIDC_ISSUER", "needs packages that are not installed: pip install 'skipmap[oidc]'"
        ) from None
    return current_provider()


def _keep(attempt: Attempt, go_on: str) -> None:
    """Let the browser's cookie hold what its return is checked by."""
    until = int(time.time()) + _PENDING_SECONDS
    # Browsers drop a cookie that is too long.
    go_on = go_on if len(go_on) <= _KEPT_CHARACTERS else address_to_go_on(None)
    entry = [attempt.state, attempt.nonce, attempt.verifier, go_on, until]
    session[_PENDING] = [*session.get(_PENDING, [])[1 - _MOST_PENDING :], entry]


def _take(state: str) -> tuple[Attempt, str] | None:
    """What was kept under the state, which is not kept any longer."""
    from web.oidc import Attempt

    pending = session.pop(_PENDING, [])
    session[_PENDING] = [entry for entry in pending if entry[0] != state]
    for entry in pending:
        if entry[0] == state and entry[4] > time.time():
            return Attempt(*entry[:3]), entry[3]
    return None
