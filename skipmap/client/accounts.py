"""Users and tokens, as the API takes and shows them, and the calls for users."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field

from skipmap.canonical import bad_text
from skipmap.client.bases import Answer, Request
from skipmap.client.connection import API, Call, Connection
from skipmap.client.pages import pages
from skipmap.client.paths import user_path
from skipmap.client.problems import read
from skipmap.errors import NotFound

Scope = Literal["jobs:read", "jobs:write", "maps:read", "maps:publish", "nodes:report", "admin"]
Role = Literal["viewer", "editor", "publisher", "admin"]


class TokenRequest(Request):
    """A new token for a user."""

    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field(min_length=1)
    user_id: str | None = None
    """Whose; None: the caller's own."""
    expires_in_seconds: float | None = Field(default=None, gt=0, le=10 * 365 * 86400)


class TokenView(Answer):
    """A token without its secret."""

    id: str
    user_id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewToken(TokenView):
    """A token just made; ``secret`` is shown this once."""

    secret: str


class UserRequest(Request):
    """A new user. ``role``: what the user may do once signed in; ``password``: None for one who does not sign in so."""

    name: str = Field(min_length=1, max_length=100)
    role: Role = "viewer"
    password: str | None = Field(default=None, repr=False)


class UserChange(Request):
    """What is to change of a user; what is left out stays. ``password``: null takes it away."""

    role: Role | None = None
    password: str | None = Field(default=None, repr=False)
    disabled: bool | None = None


class UserView(Answer):
    """Somebody who signs in or holds tokens."""

    id: str
    name: str
    role: Role
    has_password: bool
    created_at: datetime
    disabled_at: datetime | None


class Me(Answer):
    """Who the caller is, and what the token allows."""

    user_id: str
    user_name: str
    token_id: str
    scopes: list[Scope]


class UsersClient:
    """The calls for users, which take admin; see ``Client`` for what they may raise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, limit: int | None = None) -> Iterator[UserView]:
        """Users, newest first, ``limit`` at most."""
        return pages(self._connection, UserView, f"{API}/users", {}, limit)

    def named(self, name: str) -> UserView:
        """The user of a name; raises NotFound."""
        # An argument that is no text reaches no service, and nobody has it for a name.
        if name and bad_text(name) is None:
            for user in pages(self._connection, UserView, f"{API}/users", {"name": name}, 1):
                return user
        raise NotFound(f"no user {name!r}")

    def add(self, request: UserRequest) -> UserView:
        """Add a user."""
        body = request.model_dump(mode="json", exclude_unset=True)
        return read(
            UserView, self._connection.send(Call("POST", f"{API}/users", json=body, repeatable=False))
        )

    def change(self, user_id: str, change: UserChange) -> UserView:
        """Change role or password, disable or enable; see ``UserChange``."""
        body = change.model_dump(mode="json", exclude_unset=True)
        return read(UserView, self._connection.send(Call("PATCH", user_path(user_id), json=body)))
