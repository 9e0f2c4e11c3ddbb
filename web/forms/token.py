"""The form that makes a token, on the account page and for administrators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from flask import request

from api.requests import validated
from models.roles import SCOPES, Scope
from skipmap.client.accounts import TokenRequest
from skipmap.errors import InvalidInput
from web.accounts import SCOPE_TEXTS

_DAY_SECONDS = 86400
LIFETIMES = (
    ("7", "7 days"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "1 year"),
    ("never", "Never: valid until it is revoked"),
)
"""Days from now, as the form sends them, and what it shows."""
SENT_BEFORE = (
    "This form was sent before. A token's secret is shown once; if it is lost, revoke it and make another."
)


@dataclass(frozen=True)
class TokenForm:
    """What was typed; a new form holds the defaults."""

    name: str = ""
    scopes: tuple[str, ...] = ("jobs:read",)
    lifetime: str = "90"
    user: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)

    def with_errors(self, errors: Mapping[str, str]) -> TokenForm:
        """The form once more, with what is wrong in it."""
        return replace(self, errors=errors)


def scope_choices(scopes: list[Scope]) -> list[tuple[Scope, str]]:
    """Scopes with what they allow."""
    return [(scope, SCOPE_TEXTS[scope]) for scope in scopes]


def read_token_form() -> tuple[TokenForm, TokenRequest | None]:
    """The form as it was sent, and what it asks for; None where something is wrong with it."""
    typed = TokenForm(
        name=request.form.get("name", "").strip(),
        scopes=tuple(scope for scope in SCOPES if scope in request.form.getlist("scopes")),
        lifetime=request.form.get("lifetime", ""),
        user=request.form.get("user", "").strip(),
    )
    errors = {}
    if not typed.name:
        errors["name"] = "Give it a name that says where it will be used."
    if not typed.scopes:
        errors["scopes"] = "Tick at least one thing that it may do."
    if typed.lifetime not in dict(LIFETIMES):
        errors["lifetime"] = "Choose how long it is valid."
    if not errors:
        days = None if typed.lifetime == "never" else int(typed.lifetime)
        asked = {
            "name": typed.name,
            "scopes": list(typed.scopes),
            "expires_in_seconds": None if days is None else days * _DAY_SECONDS,
        }
        try:
            return typed, cast(TokenRequest, validated(TokenRequest, asked))
        except InvalidInput as error:
            errors[error.field] = error.problem
    return typed.with_errors(errors), None
