"""Where maps come from, and the token for it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from skipmap.errors import InvalidInput


@dataclass(frozen=True)
class Service:
    """Where maps come from. ``url``: without a closing slash."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str, token: str | None = None, *, plain_http: bool = False) -> Service:
        """The service at an address; raises InvalidInput for one that cannot be used.

        ``plain_http``: send the token to other machines in the clear, on a network that is trusted.
        """
        try:
            parts = urlsplit(url.strip())
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address or parts.query or parts.fragment or "@" in parts.netloc:
            raise InvalidInput(
                "server",
                "must be an address such as https://skipmap.example:8765, without a name or password",
            )
        service = cls(parts.geturl().rstrip("/"), token)
        if token is not None and not (token and all("!" <= char <= "~" for char in token)):
            raise InvalidInput("token", "is no token: one word of ASCII characters is expected")
        if token and parts.scheme == "http" and not service.is_local and not plain_http:
            raise InvalidInput(
                "server",
                f"the token would go to {parts.hostname} in the clear; use https, or plain_http=True on a network "
                "you trust",
            )
        return service

    @property
    def is_local(self) -> bool:
        """Whether nothing that is sent there leaves this machine."""
        return is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_encrypted(self) -> bool:
        """Whether it is spoken to over TLS."""
        return self.url.startswith("https:")


def is_loopback(host: str) -> bool:
    """Whether a host's name or address leads to this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
