"""One HTTP exchange that ends in time whatever the other side does, with an answer of bounded size or a reason."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from skipmap import __version__
from skipmap.errors import ModelFailure
from skipmap.serving.address import Service
from skipmap.serving.forks import gate
from skipmap.serving.schedule import retry_after

MAX_BYTES = 16 * 2**20
"""Longest answer that is taken, both as sent and unpacked; a map has a few KB, centroids of a router add some."""

DEADLINE_SECONDS = 20.0
"""Time for a whole exchange from the first look-up to the last byte, without what a long poll is asked to wait."""

_CONNECT_SECONDS, _SILENCE_SECONDS = 5.0, 10.0
_PIECE_BYTES = 64 * 1024
_DETAIL_LENGTH = 300
_WAITING_STEPS = ("connection.connect_tcp", "http11.receive_response_headers")


class FetchFault(ModelFailure):
    """No usable answer. ``status``: of the one that came; ``given_up``: by our own request.

    ``retry_after``: seconds that the service asks to wait.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        given_up: bool = False,
    ) -> None:
        super().__init__(reason)
        self.status, self.retry_after, self.given_up = status, retry_after, given_up


@dataclass(frozen=True)
class Answer:
    """What came back, read whole. ``seconds``: how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


class Fetcher:
    """Sends requests to one service, one at a time; another thread may give the one at hand up.

    Every request has a connection of its own: polls are too far apart to keep one open, and a process that is forked
    in between then shares none.
    """

    def __init__(
        self,
        service: Service,
        max_bytes: int = MAX_BYTES,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._service, self._max_bytes, self._deadline_seconds = service, max_bytes, deadline_seconds
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._is_closed = False
        headers = {"User-Agent": f"skipmap/{__version__}", "Connection": "close"}
        if service.token:
            headers["Authorization"] = f"Bearer {service.token}"
        # A proxy is no way to this machine itself, and would see the token.
        self._http = httpx2.Client(
            headers=headers,
            verify=_tls(service),
            trust_env=not service.is_local,
            follow_redirects=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    def fetch(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        wait_seconds: float = 0.0,
        unless: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """The answer if it is 2xx or 304; raises FetchFault with the reason otherwise.

        ``wait_seconds``: silence that was asked for before the answer begins; comes on top of the deadline.
        ``unless``: looked at once ``give_up`` would be heard; true gives the request up before it begins.
        """
        line = _Line(is_waiting=wait_seconds > 0)
        with self._lock:
            if self._is_closed:
                raise FetchFault("the client is stopped", given_up=True)
            self._line = line
        started, limit = time.monotonic(), wait_seconds + self._deadline_seconds
        silence = min(_SILENCE_SECONDS, self._deadline_seconds / 2)
        alarm = threading.Timer(limit, line.cut, ("deadline",))
        alarm.daemon = True
        try:
            alarm.start()
            if unless():
                line.cut("request")
                raise self._fault(None, line, limit)
            request = self._http.build_request(
                method,
                self._service.url + path,
                headers={"Accept-Encoding": "gzip", **(headers or {})},
                content=content,
                timeout=httpx2.Timeout(
                    silence, connect=min(_CONNECT_SECONDS, silence), read=wait_seconds + silence
                ),
                extensions={"trace": line.trace},
            )
            answer = self._exchange(request, started)
        except Exception as error:
            raise self._fault(error, line, limit) from error
        finally:
            alarm.cancel()
            with self._lock:
                self._line = None
                is_closed = self._is_closed
            line.release()
            if is_closed:
                self._http.close()
        if line.cut_by is not None:
            # It came to an end, but perhaps only because we shut the connection.
            raise self._fault(None, line, limit)
        if answer.status == 304 or 200 <= answer.status < 300:
            return answer
        pause = retry_after(answer.headers.get("retry-after"))
        raise FetchFault(_refusal(answer), status=answer.status, retry_after=pause)

    def give_up(self, *, if_waiting: bool = False) -> None:
        """End the request at hand, if there is one; ``if_waiting``: only one whose answer was asked to wait."""
        with self._lock:
            line = self._line
        if line is not None and (line.is_waiting or not if_waiting):
            line.cut("request")

    def close(self) -> None:
        """End the request at hand and take no more."""
        with self._lock:
            self._is_closed = True
            is_idle = self._line is None
        self.give_up()
        if is_idle:
            self._http.close()

    def forget_inherited(self) -> None:
        """In a forked child: close what the parent had open, without ending it for the parent."""
        if self._line is not None:
            self._line.close_inherited()

    def _exchange(self, request: httpx2.Request, started: float) -> Answer:
        response = self._http.send(request, stream=True)
        with contextlib.closing(response):
            body = _read(response, self._max_bytes)
        return Answer(response.status_code, response.headers, body, time.monotonic() - started)

    def _fault(self, error: Exception | None, line: _Line, limit_seconds: float) -> FetchFault:
        url = self._service.url
        if line.cut_by == "request":
            return FetchFault("the request was given up", given_up=True)
        if line.cut_by == "deadline":
            return FetchFault(f"{url} did not finish its answer within {limit_seconds:g} s")
        match error:
            case FetchFault():
                return error
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return FetchFault(f"cannot reach {url} ({_text(error)})")
            case httpx2.TimeoutException():
                return FetchFault(f"{url} is silent (timeout)")
            case httpx2.RemoteProtocolError() | httpx2.ReadError():
                return FetchFault(f"{url} broke off its answer ({_text(error)})")
            case _:
                return FetchFault(f"{url} cannot be asked ({_text(error)})")


class _Line:
    """The connection of one request, seen through the HTTP library's trace, so that it can be cut from outside."""

    def __init__(self, is_waiting: bool) -> None:
        self.is_waiting = is_waiting
        self.cut_by: str | None = None
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._was_inside = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        step, _, moment = event.rpartition(".")
        if step in _WAITING_STEPS:
            # What happens in between is that the kernel is waited for; a fork may come.
            if moment == "started":
                self._was_inside = gate().leave()
            elif self._was_inside:
                gate().come_back()
        if event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        connected = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.append(connected)
            if self._handle is None:
                # A handle of its own stays good when TLS takes the socket over.
                self._handle = connected.dup()
            if self.cut_by is not None:
                self._shut()

    def cut(self, by: str) -> None:
        with self._lock:
            self.cut_by = self.cut_by or by
            self._shut()

    def release(self) -> None:
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None

    def close_inherited(self) -> None:
        # No lock: the thread that may have held it is not in this process. Closing sends nothing.
        for connected in (*self._sockets, self._handle):
            if connected is not None:
                with contextlib.suppress(OSError):
                    connected.close()

    def _shut(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)


def _tls(service: Service) -> ssl.SSLContext:
    """Checks of certificates, also of a local service; plain HTTP does without the work of loading them."""
    return httpx2.create_ssl_context() if service.is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _read(response: httpx2.Response, max_bytes: int) -> bytes:
    """The body, unpacked; FetchFault when it is too long, or packed in a way that was not asked for."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip"):
        raise FetchFault(f"the answer is packed as {coding[:20]!r}; only gzip is understood")
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS) if coding == "gzip" else None
    body, received = bytearray(), 0
    for piece in response.iter_raw(_PIECE_BYTES):
        received += len(piece)
        if unpacker is not None:
            try:
                piece = unpacker.decompress(piece, max_bytes + 1 - len(body))
            except zlib.error:
                raise FetchFault("the answer cannot be unpacked; it was damaged on the way") from None
        body += piece
        if len(body) > max_bytes or received > max_bytes:
            raise FetchFault(f"the answer is longer than {max_bytes} bytes; it is not read any further")
    if unpacker is not None and received and (not unpacker.eof or unpacker.unused_data):
        raise FetchFault("the answer broke off before its end")
    return bytes(body)


def _refusal(answer: Answer) -> str:
    text = f"the service answers {answer.status}"
    with contextlib.suppress(ValueError, RecursionError):
        problem = json.loads(answer.body[:_PIECE_BYTES])
        detail = problem.get("detail") if isinstance(problem, dict) else None
        if isinstance(detail, str) and detail:
            shown = "".join(char if char.isprintable() else " " for char in detail[:_DETAIL_LENGTH])
            text = f"{text}: {shown}"
    if 300 <= answer.status < 400:
        return f"{text} and points elsewhere; give the address that it points to"
    if answer.status in (401, 403):
        return f"{text}; give a token that may read maps and report nodes"
    return text


def _text(error: Exception | None) -> str:
    return str(error) or type(error).__name__
