"""The web server around a node: its socket, its time-outs, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from skipmap.errors import InvalidInput
from skipmap.serving.node.app import make_app
from skipmap.serving.node.node import Node

_FLUSH_SECONDS = 5
"""For answers that are being sent when the last one has been made."""

_LAST_PORT = 65_535

_log = logging.getLogger("skipmap.serving.node")


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet; raises InvalidInput when the address cannot be used."""
    if not 0 <= port <= _LAST_PORT:
        raise InvalidInput("--port", f"{port} is given; give 0 (any free one) to {_LAST_PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput("--host", f"{host!r} port {port} is no address to listen at: {error}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            "--port", f"cannot listen at {host} port {port}: {error}; choose another port"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class NodeServer(uvicorn.Server):
    """Serves a node until a signal comes.

    The first SIGTERM or SIGINT begins the end: new requests get 503, running ones have ``drain_seconds``; a second one
    ends everything at once. ``on_ready`` is called when requests can come.
    """

    def __init__(self, node: Node, on_ready: Callable[[], None] | None = None) -> None:
        settings = node.settings
        super().__init__(
            uvicorn.Config(
                make_app(node),
                http=_patient_for(settings.header_seconds),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=settings.keep_alive_seconds,
                timeout_graceful_shutdown=_FLUSH_SECONDS,
            )
        )
        self._node = node
        self._on_ready = on_ready
        self._is_ending = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self._on_ready is not None:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        if self._is_ending:
            _log.warning("ending at once")
            self.force_exit = self.should_exit = True
            return
        self.begin_end()

    def begin_end(self) -> None:
        """Take no more requests, let running ones finish, then end; returns at once."""
        self._is_ending = True
        threading.Thread(target=self._drain, name="skipmap-drain", daemon=True).start()

    def _drain(self) -> None:
        seconds = self._node.settings.drain_seconds
        _log.info("no new requests; running ones have %g s", seconds)
        if not self._node.engine.drain(seconds):
            _log.warning("%d answers were not finished in time", self._node.engine.running)
            self._node.engine.stop()
        self.should_exit = True


def _patient_for(seconds: float) -> type[H11Protocol]:
    """A protocol that gives a request's headers some seconds to arrive."""

    class Patient(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._disarm()
            elif self._deadline is None and self.timeout_keep_alive_task is None:
                self._wait_for_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def _wait_for_headers(self) -> None:
            self._deadline = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def _disarm(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Patient
