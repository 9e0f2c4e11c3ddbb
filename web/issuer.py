"""The issuer: what an OpenID Connect provider says of itself, and its keys, asked for by HTTP and kept for a while."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from joserfc.jwk import KeySet

from api.greenlets import within
from skipmap.errors import InvalidInput, SkipmapError
from skipmap.serving.address import is_loopback

_DISCOVERY = "/.well-known/openid-configuration"
_TIMEOUT_SECONDS = 5.0
_DEADLINE_SECONDS = 10.0
_KEPT_SECONDS = 3600.0
"""How long what the provider says of itself is believed without asking again."""
_KEYS_ASKED_SECONDS = 10.0
"""Unknown keys make us ask for new ones this often at most."""


class OidcFailed(SkipmapError):
    """The provider did not confirm who signs in. The message may be shown."""


class ProviderAway(OidcFailed):
    """The provider cannot be asked just now."""


@dataclass(frozen=True)
class Description:
    """What the provider says of itself, and when it said so. ``takes_basic``: a client's secret in a header."""

    issuer: str
    authorization: str
    token: str
    keys: str
    userinfo: str | None
    takes_basic: bool
    read_at: float


class Issuer:
    """A provider at its address; ``name``: what it is called in messages. Raises InvalidInput for a bad address."""

    def __init__(self, address: str, name: str) -> None:
        self.address = _checked_address(address, "SKIPMAP_OIDC_ISSUER").rstrip("/")
        self.name = name
        self._known: Description | None = None
        self._keys: KeySet | None = None
        self._keys_read_at = 0.0
        self._lock = threading.Lock()

    @property
    def client_options(self) -> dict[str, Any]:
        """How its addresses are asked: not for long, and on this machine without a proxy."""
        is_here = is_loopback(urlsplit(self.address).hostname or "")
        return {"timeout": _TIMEOUT_SECONDS, "trust_env": not is_here}

    def within_deadline(self) -> AbstractContextManager[None]:
        """Raise ProviderAway in a block that takes too long altogether."""
        return within(_DEADLINE_SECONDS, ProviderAway(f"{self.name} takes too long; try again later"))

    def description(self) -> Description:
        """What the provider says of itself; raises OidcFailed."""
        known = self._known
        if known is not None and time.monotonic() - known.read_at < _KEPT_SECONDS:
            return known
        with self.within_deadline():
            found = self.get(self.address + _DISCOVERY)
        if str(found.get("issuer")).rstrip("/") != self.address:
            raise OidcFailed(
                f"SKIPMAP_OIDC_ISSUER is {self.address}, but the provider calls itself {shown(found.get('issuer'))}; "
                "an administrator must set the one that it calls itself"
            )
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        userinfo = found.get("userinfo_endpoint")
        self._known = Description(
            issuer=str(found["issuer"]),
            authorization=self._endpoint(found, "authorization_endpoint"),
            token=self._endpoint(found, "token_endpoint"),
            keys=self._endpoint(found, "jwks_uri"),
            userinfo=None if userinfo is None else self._endpoint(found, "userinfo_endpoint"),
            takes_basic="client_secret_basic" in methods or "client_secret_post" not in methods,
            read_at=time.monotonic(),
        )
        return self._known

    def key_set(self, about: Description, *, anew: bool = False) -> KeySet:
        """The keys that it signs with; ``anew``: also where some are known already."""
        with self._lock:
            age = time.monotonic() - self._keys_read_at
            if self._keys is None or age > (_KEYS_ASKED_SECONDS if anew else _KEPT_SECONDS):
                self._keys = KeySet.import_key_set(self.get(about.keys))  # type: ignore[arg-type]
                self._keys_read_at = time.monotonic()
            return self._keys

    def get(self, address: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """A document of the provider's; raises ProviderAway."""
        try:
            with httpx2.Client(**self.client_options) as client:
                answer = client.get(address, headers=headers)
            answer.raise_for_status()
            found = answer.json()
        except (httpx2.HTTPError, ValueError):
            raise ProviderAway(f"{self.name} does not answer as it should; try again later") from None
        if not isinstance(found, dict):
            raise ProviderAway(f"{self.name} does not answer as it should; try again later")
        return found

    def _endpoint(self, found: dict[str, Any], name: str) -> str:
        try:
            return _checked_address(str(found.get(name)), name)
        except InvalidInput as error:
            raise OidcFailed(f"{self.name} describes itself in a way that cannot be used: {error}") from None


def shown(text: Any) -> str:
    """A short text of the provider's as it may be shown."""
    return "".join(c for c in str(text) if c.isprintable())[:200]


def _checked_address(address: str, what: str) -> str:
    """An address that secrets may go to; raises InvalidInput for any other."""
    parts = urlsplit(address)
    if parts.hostname and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
    ):
        return address
    raise InvalidInput(what, f"must begin with https:// (given: {address!r}); http is for this machine alone")
