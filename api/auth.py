"""Authentication by bearer tokens, and what a route asks of one."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import cast, get_args

from flask import current_app, g, request

from api.problems import FORBIDDEN, UNAUTHORIZED, ProblemError
from api.routes import Access
from api.service import Service
from models.accounts import Principal, Scope, authenticate
from models.database import Database

_MOST_CACHED = 10_000


@dataclass(frozen=True)
class _Known:
    principal: Principal
    until: float


class TokenCache:
    """Tokens that were found valid lately, so that pollers cost no query for them.

    A revoked or expired token is taken for ``seconds`` longer at most.
    """

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def known(self, secret: str) -> Principal | None:
        """Who holds the secret, if that was found out lately."""
        known = self._known.get(secret)
        return known.principal if known is not None and time.monotonic() < known.until else None

    def principal(self, secret: str) -> Principal | None:
        """Who holds the secret, or None."""
        known = self.known(secret)
        if known is not None:
            return known
        now = time.monotonic()
        principal = self._database.read(authenticate, secret)
        with self._lock:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
            self._known.pop(secret, None)
            if principal is not None:
                self._known[secret] = _Known(principal, now + self._seconds)
        return principal

    def forget(self, token_id: str | None = None) -> None:
        """Look a token up again the next time; None: all of them."""
        with self._lock:
            gone = [s for s, k in self._known.items() if token_id in (None, k.principal.token_id)]
            for secret in gone:
                del self._known[secret]


def authorize(service: Service) -> None:
    """Let the request pass, or raise ProblemError; runs before every view.

    An address whose access is not declared lets nobody in.
    """
    if request.endpoint is None:
        return
    access: Access | None = getattr(current_app.view_functions[request.endpoint], "access", None)
    if access == "metrics":
        access = "public" if service.settings.public_metrics else "jobs:read"
    if access == "public":
        return
    principal = _principal(service)
    g.principal = principal
    if access == "any token":
        return
    if access not in get_args(Scope) or not principal.may(cast(Scope, access)):
        raise ProblemError(
            FORBIDDEN,
            f"this needs a token with the scope {access}; yours has {', '.join(sorted(principal.scopes))}",
            {"WWW-Authenticate": f'Bearer realm="skipmap", error="insufficient_scope", scope="{access}"'},
        )


def current_principal() -> Principal:
    """Who makes the request, in a view that is not public."""
    return cast(Principal, g.principal)


def _principal(service: Service) -> Principal:
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    secret = secret.strip()
    known = service.tokens.known(secret) if kind.lower() == "bearer" else None
    if known is not None:
        return known
    # Whoever sends no valid token is counted by address, before a look-up costs anything.
    service.limits.check()
    if kind.lower() != "bearer" or not secret:
        raise ProblemError(
            UNAUTHORIZED,
            "no token; send the header 'Authorization: Bearer TOKEN'",
            {"WWW-Authenticate": 'Bearer realm="skipmap"'},
        )
    principal = service.tokens.principal(secret)
    if principal is None:
        raise ProblemError(
            UNAUTHORIZED,
            "the token is unknown, expired or revoked; ask an administrator for a new one",
            {"WWW-Authenticate": 'Bearer realm="skipmap", error="invalid_token"'},
        )
    service.uses.note(principal.use)
    return principal
