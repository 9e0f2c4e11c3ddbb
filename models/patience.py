"""Patience: connections that give up on a server that has gone silent.

The server's own timeouts are no help when the server itself hangs (stopped, out of memory, its disk stuck): the socket
stays open and nothing comes.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import psycopg

from models.errors import Unavailable

_WAKE_SECONDS = 0.1
_longer: ContextVar[float | None] = ContextVar("longer", default=None)


@dataclass
class _Silence:
    """Since when a transaction waits for a first sign of life, and whether there was one."""

    since: float
    heard: bool = False


_silence: ContextVar[_Silence | None] = ContextVar("silence", default=None)


class ServerSilent(Unavailable):
    """Nothing came from the database for too long; the connection is closed, and the call may be made again later."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Allow longer silence for statements that are known to take their time."""
    token = _longer.set(seconds)
    try:
        yield
    finally:
        _longer.reset(token)


@contextmanager
def silence_from_now() -> Iterator[None]:
    """Let the time before the first sign of life count as a whole: for a connection, for its check, for a retry."""
    token = _silence.set(_Silence(time.monotonic()))
    try:
        yield
    finally:
        _silence.reset(token)


def heard(moment: float) -> None:
    """Let the time before a ``time.monotonic()`` be no silence of the server: it answered others then."""
    silence = _silence.get()
    if silence is not None:
        silence.since = max(silence.since, moment)


def connection_type(seconds: float) -> type[psycopg.Connection[Any]]:
    """A connection class that raises ServerSilent after so many seconds without a sign of life of the server."""

    class PatientConnection(psycopg.Connection[Any]):
        @classmethod
        def _connect_gen(cls, *args: Any, **kwargs: Any) -> Any:
            return _watched(super()._connect_gen(*args, **kwargs), seconds)

        def wait(self, gen: Any, interval: float = _WAKE_SECONDS, timeout: float | None = None) -> Any:
            try:
                return super().wait(_watched(gen, _longer.get() or seconds), interval, timeout)
            except ServerSilent:
                # What the server may still send belongs to no statement any more.
                self.close()
                raise

    return PatientConnection


def _watched(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """The same steps, with a look at the clock whenever a wait ends without data."""
    silence = _silence.get() or _Silence(time.monotonic(), heard=True)
    last = time.monotonic() if silence.heard else silence.since
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                last, silence.heard = now, True
            elif now - last > seconds:
                steps.close()
                raise ServerSilent(f"the database has been silent for {seconds:g} s; try again shortly")
            wanted = steps.send(ready)
    except StopIteration as done:
        return done.value
