"""The guard: who makes a request, whether the view is for them, and whether a form is one of ours."""

from __future__ import annotations

import hmac
import secrets
from typing import Any, cast
from urllib.parse import urlsplit

from flask import current_app, flash, g, redirect, request, session, url_for
from werkzeug.wrappers import Response

from api.problems import FORBIDDEN, UNAUTHORIZED, ProblemError
from api.requests import TimedBody
from api.service import Service, current_service
from models.accounts import Principal, Scope
from models.sessions import SessionPrincipal, session_principal
from web.mask import masked, unmasked
from web.routes import Access, PageRoute
from web.settings import WebSettings

SESSION, CSRF = "session", "csrf"
USER, EARLIER = "user", "earlier"
"""Who signed in last with this browser, and what forms of that person's session before this one carry."""
CSRF_HEADER, CSRF_FIELD = "X-CSRF-Token", "csrf_token"
SETTINGS = "skipmap-web"
"""Under this name Flask keeps the dashboard's settings among its extensions."""
_SHOWN_TOKEN = "shown_token"
_OWN_SITES = (None, "same-origin", "none")


class FormTooLate(ProblemError):
    """A form was opened before the present session began, or after it had ended."""


def web_settings() -> WebSettings:
    """The settings of the running app."""
    return cast(WebSettings, current_app.extensions[SETTINGS])


def current_session() -> SessionPrincipal | None:
    """The session of the request, if there is one."""
    return cast("SessionPrincipal | None", g.get("session"))


def csrf_token() -> str:
    """What a form of this session must send along, as this answer shows it."""
    token: str = session.setdefault(CSRF, secrets.token_urlsafe(32))
    known, shown = g.get(_SHOWN_TOKEN, ("", ""))
    if known != token:
        shown = masked(token)
        setattr(g, _SHOWN_TOKEN, (token, shown))
    return str(shown)


def without_mask(body: str) -> str:
    """A body with the token as it is, so that two answers that say the same are the same."""
    known, shown = g.get(_SHOWN_TOKEN, ("", ""))
    return body.replace(shown, known) if shown else body


def guard(service: Service, settings: WebSettings) -> Response | None:
    """Let the request pass, send a visitor to sign in, or raise ProblemError; runs before every view."""
    if request.endpoint is None:
        # The page that says so shows who is signed in.
        g.session = _session(service, settings)
        service.limits.check()
        return None
    route: PageRoute = cast(Any, current_app.view_functions[request.endpoint]).route
    if request.endpoint == "get_asset":
        return None
    g.session = _session(service, settings)
    if g.session is not None:
        g.principal = g.session.principal
    service.limits.check()
    if request.method == "POST":
        _limit_body(service, route)
        _check_origin()
    if route.access != "public":
        if g.session is None:
            return _ask_to_sign_in()
        _check_scope(g.session.principal, route.access)
    if request.method == "POST":
        # The last: a body is read only for those who may send one.
        _check_form()
    return None


def _limit_body(service: Service, route: PageRoute) -> None:
    """Bound the size of the body, and the time that its sender takes for it."""
    limits = service.settings
    # Files are kept on disk piece by piece; any other form is parsed in one go.
    takes_file = route.upload and request.mimetype == "multipart/form-data"
    # A form adds its fields to a file.
    request.max_content_length = limits.body_bytes + (
        limits.upload_bytes if takes_file else limits.body_bytes
    )
    request.environ["wsgi.input"] = TimedBody(request.environ["wsgi.input"], request.content_length)


def _session(service: Service, settings: WebSettings) -> SessionPrincipal | None:
    secret = session.get(SESSION)
    if not isinstance(secret, str):
        return None
    found = service.database.read(session_principal, secret, settings.session_idle_seconds)
    if found is None:
        session.pop(SESSION)
        flash("Your session has ended.", "info")
        return None
    service.uses.note(found.principal.use)
    return found


def is_from_here() -> bool:
    """Whether nothing says that another site's page made the request."""
    origin = request.headers.get("Origin")
    try:
        foreign = origin is not None and urlsplit(origin).netloc != request.host
    except ValueError:
        foreign = True
    return not foreign and request.headers.get("Sec-Fetch-Site") in _OWN_SITES


def _check_origin() -> None:
    """What can be refused by a form's headers alone."""
    if not is_from_here():
        raise ProblemError(FORBIDDEN, "the form comes from another site; open this page here and try again")
    if not session.get(CSRF):
        raise _other_session()


def _check_form() -> None:
    """Other sites cannot read our pages, so they do not know the token; old browsers send no headers that tell."""
    # Also where a header holds the token: what is wrong with the body is said here, and not amid the view.
    form = request.form
    given = unmasked(request.headers.get(CSRF_HEADER) or form.get(CSRF_FIELD, ""))
    known = [token for token in (session[CSRF], session.get(EARLIER)) if token]
    if not any(hmac.compare_digest(token.encode(), given) for token in known):
        raise _other_session()


def _other_session() -> FormTooLate:
    return FormTooLate(
        FORBIDDEN,
        "the form was opened in an earlier session, or cookies are blocked; nothing was changed. "
        "Allow cookies for this site, load the page again and repeat",
    )


def _ask_to_sign_in() -> Response:
    if request.method == "POST" and not current_is_fetch():
        raise FormTooLate(
            UNAUTHORIZED, "your session has ended and nothing was changed; sign in and send it again"
        )
    # A script cannot follow to a form.
    if request.method not in ("GET", "HEAD") or "X-Fragment" in request.headers or current_is_fetch():
        raise ProblemError(UNAUTHORIZED, "your session has ended; sign in again")
    asked = request.full_path if request.query_string else request.path
    return redirect(url_for("sign_in", next=request.script_root + asked), 303)


def current_is_fetch() -> bool:
    """Whether a script of ours makes the request."""
    return request.headers.get("X-Requested-With") == "fetch"


def _check_scope(principal: Principal, access: Access) -> None:
    if access == "signed in" or principal.may(cast(Scope, access)):
        return
    raise ProblemError(
        FORBIDDEN, f"this needs the right {access}; ask an administrator for a role that has it"
    )


def may(scope: Scope) -> bool:
    """Whether who is signed in has the scope."""
    found = current_session()
    return found is not None and found.principal.may(scope)


def own_address(given: str | None, otherwise: str) -> str:
    """An address on this site to go on to; anything else is replaced."""
    if not given or not given.startswith("/") or given.startswith(("//", "/\\")) or not given.isprintable():
        return otherwise
    return given if urlsplit(given).netloc == "" else otherwise


def service_and_principal() -> tuple[Service, Principal]:
    """What most views that change something begin with."""
    return current_service(), cast(Principal, g.principal)
