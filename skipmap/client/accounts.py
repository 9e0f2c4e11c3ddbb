"""Users and tokens, as the API takes and shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from skipmap.client.bases import Answer, Request

Scope = Literal["jobs:read", "jobs:write", "maps:read", "maps:publish", "nodes:report", "admin"]


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
    """A new user."""

    name: str = Field(min_length=1, max_length=100)


class UserView(Answer):
    """Somebody who holds tokens."""

    id: str
    name: str
    created_at: datetime
    disabled_at: datetime | None


class Me(Answer):
    """Who the caller is, and what the token allows."""

    user_id: str
    user_name: str
    token_id: str
    scopes: list[Scope]
