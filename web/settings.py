"""Settings of the dashboard, read from the environment (``SKIPMAP_...``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from skipmap.errors import InvalidInput


class WebSettings(BaseSettings):
    """How people sign in. Every field is set by ``SKIPMAP_`` and its name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    secret_key_file: Path | None = None
    """Signs cookies; by default ``secret-key`` in SKIPMAP_HOME, made when it is not there."""
    session_hours: float = Field(default=24 * 7, gt=0, le=24 * 366)
    """A session ends so long after signing in."""
    session_idle_hours: float = Field(default=24, gt=0, le=24 * 366)
    """A session that is not used for so long ends."""
    sign_ins_per_minute: int = Field(default=10, ge=1, le=10_000)
    """Attempts from one address; together, addresses have twenty times as many for one name."""
    secure_cookies: bool | None = None
    """Whether cookies are for https alone; by default they are when the page itself came by https."""

    oidc_issuer: str | None = None
    """Address of an OpenID Connect provider; setting it adds a button to the sign-in page."""
    oidc_client_id: str | None = None
    oidc_client_secret: SecretStr | None = None
    oidc_name: str = Field(default="single sign-on", min_length=1, max_length=60)
    """What the button says."""
    oidc_default_role: str | None = None
    """Role of people who sign in for the first time; without it an administrator adds them first."""

    @property
    def session_idle_seconds(self) -> float:
        """``session_idle_hours`` in seconds."""
        return self.session_idle_hours * 3600


def read_web_settings(**given: Any) -> WebSettings:
    """Settings from the environment, fields given here first; raises InvalidInput naming the variable."""
    try:
        return WebSettings(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        variable = "SKIPMAP_" + str(problem["loc"][0]).upper()
        raise InvalidInput(variable, f"{problem['msg']} (given: {problem['input']!r})") from None
