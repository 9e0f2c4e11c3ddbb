"""Roles of users, and scopes: what a role or a token allows."""

from __future__ import annotations

from typing import Literal, get_args

Scope = Literal["jobs:read", "jobs:write", "maps:read", "maps:publish", "nodes:report", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

Role = Literal["viewer", "editor", "publisher", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each allows what the one before it does, and more."""

_VIEWER: frozenset[Scope] = frozenset({"jobs:read", "maps:read"})
_EDITOR: frozenset[Scope] = _VIEWER | {"jobs:write"}
_PUBLISHER: frozenset[Scope] = _EDITOR | {"maps:publish"}
_SCOPES: dict[Role, frozenset[Scope]] = {
    "viewer": _VIEWER,
    "editor": _EDITOR,
    "publisher": _PUBLISHER,
    "admin": frozenset(SCOPES),
}


def scopes_of(role: Role) -> frozenset[Scope]:
    """What a user of the role may do once signed in; tokens have scopes of their own."""
    return _SCOPES[role]
