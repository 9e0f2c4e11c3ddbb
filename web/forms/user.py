"""The form that adds a user, and the passwords and identities that administrators give."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from flask import request
from sqlalchemy.orm import Session

from api.accounts import add_user
from api.requests import validated
from api.service import current_service
from models.accounts import create_user
from models.audit import record
from models.roles import ROLES
from models.users import Principal
from skipmap.client.accounts import UserRequest
from skipmap.errors import InvalidInput
from web.guard import web_settings

_GROUPS, _GROUP_CHARACTERS = 4, 5
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without those that look like others."""


@dataclass(frozen=True)
class UserForm:
    """What was typed; a new form holds the defaults. ``way``: how the user will sign in."""

    name: str = ""
    role: str = "viewer"
    way: str = "made"
    password: str = ""
    identity: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)

    def with_errors(self, errors: Mapping[str, str]) -> UserForm:
        """The form once more, with what is wrong in it."""
        return replace(self, errors=errors)


def read_user_form() -> UserForm:
    """The form as it was sent, with what is wrong in it."""
    typed = UserForm(
        name=request.form.get("name", "").strip(),
        role=request.form.get("role", ""),
        way=request.form.get("way", "made"),
        password=request.form.get("password", ""),
        identity=request.form.get("identity", "").strip(),
    )
    errors = {}
    if not typed.name:
        errors["name"] = "Enter a name."
    elif not typed.name.isprintable():
        errors["name"] = "It holds characters that do not show, so it could look like another name."
    if typed.role not in ROLES:
        errors["role"] = "Choose a role."
    if typed.way == "given" and not typed.password:
        errors["password"] = "Enter a password, or let one be made."
    if typed.way == "identity" and not typed.identity:
        errors["identity"] = "Enter who it is at the provider."
    return typed.with_errors(errors)


def add_user_of(typed: UserForm, principal: Principal, request_id: str | None) -> tuple[str, str | None]:
    """Add the user of a form; returns the name, and the password where one was made.

    Raises Conflict when name or identity are taken, and InvalidInput naming the field.
    """
    asked = {"name": typed.name, "role": typed.role}
    if typed.way == "identity":
        _add_identity(cast(UserRequest, validated(UserRequest, asked)), typed.identity, principal, request_id)
        return typed.name, None
    made = None if typed.way == "given" else random_password()
    request_of_user = cast(UserRequest, validated(UserRequest, {**asked, "password": made or typed.password}))
    add_user(current_service(), principal, request_of_user, request_id)
    return typed.name, made


def random_password() -> str:
    """One that can be read out and typed: 20 characters, some 99 bits."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(_GROUP_CHARACTERS)) for _ in range(_GROUPS))
    return "-".join(groups)


def _add_identity(asked: UserRequest, given: str, principal: Principal, request_id: str | None) -> None:
    """Add somebody who signs in at the provider."""
    subject = subject_of(given)

    def work(session: Session) -> None:
        user = create_user(session, asked.name, role=asked.role, oidc_subject=subject)
        record(session, principal.user_id, "user.create", user.id, request_id, role=user.role, way="oidc")

    current_service().database.transaction(work)


def subject_of(given: str) -> str:
    """An identity as it is stored; raises InvalidInput for one that cannot be.

    What people copy from the page that refused them is that already.
    """
    from web.oidc import identity

    issuer = web_settings().oidc_issuer
    if issuer is None:
        raise InvalidInput(
            "identity",
            "no provider is set up here, so nobody could sign in with it; set SKIPMAP_OIDC_ISSUER first",
        )
    if not given.isprintable():
        raise InvalidInput("identity", "it holds characters that do not show; copy it again")
    return given if given.startswith(identity(issuer, "")) else identity(issuer, given)
