"""Entrance: opens sessions for people whose password, token or identity was checked, and notes who was refused."""

from __future__ import annotations

import secrets
from ipaddress import ip_address

from flask import g, request, session, url_for
from sqlalchemy.orm import Session

from api.service import current_service
from models.accounts import list_users
from models.audit import record
from models.base import clean
from models.sessions import SignedInWith, end_session, open_session
from skipmap.client.server import ADMIN_TOKEN_FILE
from web.attempts import current_attempts
from web.guard import CSRF, EARLIER, SESSION, USER, current_session, own_address, web_settings

_VISITOR = "visitor"


def let_in(user_id: str, way: SignedInWith, token_id: str | None = None) -> None:
    """Open a session; the browser's cookie holds its secret from now on, and nothing of what it held before."""
    lifetime_seconds = web_settings().session_hours * 3600
    before = current_session()

    def work(database: Session) -> str:
        if before is not None:
            end_session(database, before.session_id)
        row, secret = open_session(
            database,
            user_id,
            token_id=token_id,
            signed_in_with=way,
            lifetime_seconds=lifetime_seconds,
            address=caller_address(),
            agent=request.user_agent.string,
        )
        record(database, user_id, "session.open", row.id, g.request_id, way=way, address=caller_address())
        return secret

    secret = current_service().database.transaction(work)
    # What the same person had opened before can still be sent; what somebody else had typed must not go in their name.
    earlier = session.get(CSRF) if session.get(USER) == user_id else None
    session.clear()
    session.permanent = True
    session.update({SESSION: secret, CSRF: secrets.token_urlsafe(32), USER: user_id})
    if earlier is not None:
        session[EARLIER] = earlier


def let_out() -> None:
    """End the session, here and in the database."""
    found = current_session()
    if found is not None:

        def work(database: Session) -> None:
            end_session(database, found.session_id)
            record(database, found.principal.user_id, "session.end", found.session_id, g.request_id)

        current_service().database.transaction(work)
    session.clear()


def note_refusal(way: SignedInWith, name: str = "") -> None:
    """Write down that somebody was refused, unless that happens too often."""
    if not current_attempts().may_note_failure():
        return

    def work(database: Session) -> None:
        # A name that nobody has may be a password that was typed in the wrong place.
        named = list_users(database, limit=1, name=clean(name)) if name else []
        subject = named[0].id if named else "unknown"
        record(database, _VISITOR, "session.refuse", subject, g.request_id, way=way, address=caller_address())

    current_service().database.transaction(work)


def count_attempt(name: str = "") -> None:
    """Count an attempt to sign in, for this name; raises ProblemError when there were too many."""
    current_attempts().check(caller_address(), name)


def count_password_of(user_id: str) -> None:
    """Count that somebody who is signed in gives the old password; raises ProblemError when that is too often."""
    current_attempts().check_user(user_id)


def address_to_go_on(given: str | None) -> str:
    """Where to go after signing in."""
    return own_address(given, url_for("show_jobs"))


def place_of_first_token() -> str | None:
    """Path of the token that the service made for its administrator; None where there is none, or is none to be seen.

    Only those on the machine itself can read it, so others are not told of its folders.
    """
    path = current_service().library.home / ADMIN_TOKEN_FILE
    try:
        is_here = ip_address(caller_address()).is_loopback and path.is_file()
    except (ValueError, OSError):
        is_here = False
    return str(path.absolute()) if is_here else None


def caller_address() -> str:
    """The address that the request comes from."""
    return request.remote_addr or "unknown"
