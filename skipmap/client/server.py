"""Where the service is, and the token for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skipmap.errors import InvalidInput, NotFound
from skipmap.serving.address import is_loopback
from skipmap.settings import get_settings

DEFAULT_SERVER = "http://127.0.0.1:8765"
MANAGER_FILE = Path("manager", "manager.json")
ADMIN_TOKEN_FILE = "admin-token"
"""In SKIPMAP_HOME: the token that a service of this machine has made for itself."""

_TOKEN_BYTES = 4096


class ClientSettings(BaseSettings):
    """What the environment says about the service."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    server: str | None = None
    """SKIPMAP_SERVER: address of the service."""

    token: SecretStr | None = None
    """SKIPMAP_TOKEN: bearer token."""


@dataclass(frozen=True)
class Server:
    """A service. ``url``: without a closing slash; ``token``: None where nothing was found."""

    url: str
    token: str | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether nothing that is sent there leaves this machine."""
        return is_loopback(urlsplit(self.url).hostname or "")


def find_server(url: str | None = None, token_file: Path | None = None, *, insecure: bool = False) -> Server:
    """The service to talk to, by options, environment and defaults, in this order.

    The default address is that of the service that runs on SKIPMAP_HOME, else ``DEFAULT_SERVER``.
    The token is that of ``token_file``, else SKIPMAP_TOKEN's, else the one that a service of this machine keeps under
    SKIPMAP_HOME, which only a loopback address gets. ``insecure`` allows a token over plain HTTP to other machines.
    Raises InvalidInput for an address or token that cannot be used, NotFound for a missing token file.
    """
    settings = ClientSettings()
    name = "--server" if url else "SKIPMAP_SERVER"
    parts = _address(url or settings.server or _own_server() or DEFAULT_SERVER, name)
    server = Server(parts.geturl().rstrip("/"))
    token = _token(settings, token_file, server)
    if token and parts.scheme == "http" and not server.is_local and not insecure:
        raise InvalidInput(
            name,
            f"a token would go to {parts.hostname} in the clear; use https, or --insecure on a network you trust",
        )
    return Server(server.url, token)


def _own_server() -> str | None:
    """Address of the service that runs on SKIPMAP_HOME, as its manager has written it down."""
    try:
        noted = json.loads((get_settings().home / MANAGER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    url = noted.get("url") if isinstance(noted, dict) else None
    return url if isinstance(url, str) else None


def _address(url: str, name: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if is_address and "@" in parts.netloc:
        raise InvalidInput(name, "the address holds a user name or password; give a token instead")
    if not is_address or parts.query or parts.fragment:
        raise InvalidInput(name, f"must be an address such as {DEFAULT_SERVER} (given: {url!r})")
    return parts


def _token(settings: ClientSettings, token_file: Path | None, server: Server) -> str | None:
    if token_file is not None:
        token = _read(token_file)
        if token is None:
            raise NotFound(f"--token-file: no file {str(token_file)!r}")
        return _checked(token, "--token-file")
    if settings.token is not None:
        return _checked(settings.token.get_secret_value(), "SKIPMAP_TOKEN")
    path = get_settings().home / ADMIN_TOKEN_FILE
    token = _read(path) if server.is_local else None
    return None if token is None else _checked(token, str(path))


def _read(path: Path) -> str | None:
    """Beginning of a file; None when there is none."""
    try:
        with path.open("rb") as file:
            return file.read(_TOKEN_BYTES + 1).decode("ascii", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput("--token-file", f"cannot read {path}: {error.strerror}") from None


def _checked(text: str, name: str) -> str:
    token = text.strip()
    # The text may be a secret, so no message repeats it.
    if not token or len(token) > _TOKEN_BYTES or not all("!" <= char <= "~" for char in token):
        raise InvalidInput(name, "holds no token: one word of ASCII characters is expected")
    return token
