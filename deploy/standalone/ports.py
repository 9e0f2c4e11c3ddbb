"""The one address that the standalone mode listens on, chosen before anything starts."""

from __future__ import annotations

import errno
import socket

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from skipmap.errors import InvalidInput

HOST = "127.0.0.1"
DEFAULT_PORT = 8765
PORT_VARIABLE = "SKIPMAP_PORT"


class PortSettings(BaseSettings):
    """SKIPMAP_PORT: where the API listens; 0 takes any free port."""

    model_config = SettingsConfigDict(
        env_prefix="SKIPMAP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)


def wanted_port() -> int:
    """The port that the environment asks for; raises InvalidInput."""
    try:
        return PortSettings().port
    except ValidationError as error:
        given = error.errors(include_url=False)[0]["input"]
        raise InvalidInput(
            PORT_VARIABLE, f"{given!r} given; allowed are 0 to 65535, 0 for any free port"
        ) from None


def take_port(wanted: int) -> int:
    """A port that is free now: the wanted one, or any for 0. Raises InvalidInput when it is not free."""
    with socket.socket() as probe:
        # As the API does: connections that have ended do not keep a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
            probe.listen()
        except OSError as error:
            why = "in use by another program" if error.errno == errno.EADDRINUSE else error.strerror
            raise InvalidInput(
                PORT_VARIABLE, f"port {wanted} of {HOST} is {why}; choose another, or 0 for any free one"
            ) from error
        port: int = probe.getsockname()[1]
        return port


def url_of(port: int) -> str:
    """The API's address without a path."""
    return f"http://{HOST}:{port}"
