"""One connection to the service: sends requests, repeats those that may be repeated, turns errors into ours."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import httpx2

from skipmap import __version__
from skipmap.client.problems import error_of
from skipmap.client.server import Server
from skipmap.errors import ModelFailure
from skipmap.serving.schedule import retry_after

API = "/api/v1"
TIMEOUT_SECONDS = 30.0
RETRY_SECONDS = 10.0
"""How long a request is repeated while the server is away or busy."""

STREAM_SILENCE_SECONDS = 45.0
"""A stream of events that is silent for longer is taken for dead; the service sends a comment every 15 s."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 3.0
_BUSY = (429, 502, 503, 504)
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@dataclass(frozen=True)
class Call:
    """A request. ``repeatable``: sending it twice does no more than sending it once; ``body``: opens what is sent."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    body: Callable[[], BinaryIO] | None = None
    repeatable: bool = True


class Connection:
    """Keeps connections open between requests. ``on_retry`` hears why one is repeated, once a request."""

    def __init__(
        self,
        server: Server,
        *,
        retry_seconds: float = RETRY_SECONDS,
        on_retry: Callable[[str], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.server = server
        self._retry_seconds, self._on_retry, self._pause = retry_seconds, on_retry, pause
        headers = {"User-Agent": f"skipmap/{__version__}"}
        if server.token:
            headers["Authorization"] = f"Bearer {server.token}"
        # A proxy is no way to this machine itself, and would see the token.
        self._http = httpx2.Client(headers=headers, timeout=TIMEOUT_SECONDS, trust_env=not server.is_local)

    def close(self) -> None:
        """Close what is open."""
        self._http.close()

    def send(self, call: Call, *, retry: bool = True) -> httpx2.Response:
        """The answer, read whole, if it is 2xx or 304.

        Raises InvalidInput, NotFound, Refused or ModelFailure, as the answer says or when none comes.
        """
        return self._answer(call, retry=retry, stream=False, timeout=TIMEOUT_SECONDS)

    @contextmanager
    def stream(
        self, call: Call, *, silence_seconds: float = TIMEOUT_SECONDS, retry: bool = True
    ) -> Iterator[httpx2.Response]:
        """An answer that is read piece by piece; also raises ModelFailure when it breaks off in between."""
        timeout = httpx2.Timeout(TIMEOUT_SECONDS, read=silence_seconds)
        response = self._answer(call, retry=retry, stream=True, timeout=timeout)
        try:
            yield response
        except httpx2.TransportError as error:
            raise ModelFailure(f"{self.server.url} broke off its answer ({_reason(error)})") from error
        finally:
            response.close()

    def _answer(
        self, call: Call, *, retry: bool, stream: bool, timeout: float | httpx2.Timeout
    ) -> httpx2.Response:
        deadline = time.monotonic() + (self._retry_seconds if retry else 0.0)
        for number in itertools.count():
            wait = min(_FIRST_PAUSE_SECONDS * 2**number, _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)
            try:
                response = self._once(call, stream, timeout)
            except httpx2.RequestError as error:
                failure: Exception = self._unreachable(error)
                may_repeat = call.repeatable or isinstance(error, _NEVER_SENT)
            else:
                if response.is_success or response.status_code == 304:
                    return response
                failure = error_of(response)
                may_repeat = _is_busy(response) and (call.repeatable or response.status_code == 429)
                wait = retry_after(response.headers.get("retry-after")) or wait
            if not may_repeat or time.monotonic() + wait > deadline:
                raise failure
            if number == 0 and self._on_retry:
                self._on_retry(f"{failure}; trying again for {self._retry_seconds:.0f} s")
            self._pause(wait)
        raise AssertionError("the loop above never ends by itself")

    def _once(self, call: Call, stream: bool, timeout: float | httpx2.Timeout) -> httpx2.Response:
        file = call.body() if call.body else None
        try:
            request = self._http.build_request(
                call.method,
                self.server.url + call.path,
                params={name: value for name, value in call.params.items() if value is not None},
                headers=call.headers,
                json=call.json,
                content=file,
                timeout=timeout,
            )
            response = self._http.send(request, stream=stream)
            if not response.is_success:
                with contextlib.closing(response):
                    response.read()
            return response
        finally:
            if file is not None:
                file.close()

    def _unreachable(self, error: httpx2.RequestError) -> ModelFailure:
        if isinstance(error, _NEVER_SENT):
            return ModelFailure(
                f"cannot reach {self.server.url} ({_reason(error)}); start the service, or give its address with "
                "--server or SKIPMAP_SERVER"
            )
        return ModelFailure(f"{self.server.url} gave no answer ({_reason(error)})")


def _is_busy(response: httpx2.Response) -> bool:
    # A conflict passes by itself where the service says when: the same request is still at work.
    return response.status_code in _BUSY or (
        response.status_code == 409 and "retry-after" in response.headers
    )


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
