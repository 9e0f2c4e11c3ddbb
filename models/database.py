"""Database: connections with short timeouts, and transactions that are repeated where repeating can help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from models.errors import TooSlow, Unavailable
from models.patience import connection_type, silence_from_now
from models.settings import ServiceSettings
from models.turnstile import Turnstile

P = ParamSpec("P")
T = TypeVar("T")

_RECYCLE_SECONDS = 1800
_WAIT_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 10.0
_MIN_CLASHES = 3
_MAX_CLASHES = 20
_PAUSE_SECONDS = 0.05
_PAUSE_CAP_SECONDS = 1.0

LOCK_TIMEOUT = "55P03"
# Deadlock, serialisation failure: another transaction was in the way.
_CLASHES = {"40P01", "40001", LOCK_TIMEOUT}
# The server stops, starts, has crashed, is only being read, or lacks connections, memory or disk.
_SERVER_AWAY = {"57P01", "57P02", "57P03", "25006", "53000", "53100", "53200", "53300"}
_TOO_SLOW = {"57014", "25P03"}


class Busy(Unavailable):
    """Other transactions were in the way all the time; the same call may be made again later."""


class Database:
    """One pool of connections. Make it in the process that uses it: sockets must not be shared over a fork.

    ``durable=False``: commits need not reach the disk at once; for heartbeats, which may be lost.
    ``silent_seconds``: a server that says nothing for so long counts as away; None waits for its own timeouts.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        name: str = "skipmap",
        durable: bool = True,
        silent_seconds: float | None = None,
    ) -> None:
        self._retry_seconds = settings.retry_seconds
        self.chunk_seconds = settings.chunk_seconds
        """How long the chunks of a level made here may take."""
        self._places = 2 * settings.pool_size
        self._options: dict[str, Any] = {
            "pool_size": settings.pool_size,
            "max_overflow": settings.pool_size,
            "pool_recycle": _RECYCLE_SECONDS,
            # A watched connection is not tried out before: when it has died, the work runs again on a new one.
            "pool_pre_ping": silent_seconds is None,
            "connect_args": _connect_arguments(settings, name, durable),
        }
        self._silent_seconds = silent_seconds
        self._url = settings.database_url
        self.engine = self._make_engine("READ COMMITTED")
        self._turnstile, self._turnstile_of_reader = self._make_turnstile(), self._make_turnstile()

    @cached_property
    def _reader(self) -> Engine:
        """Connections of their own, for to change the mode of one costs more than a small read."""
        return self._make_engine("AUTOCOMMIT")

    def _make_turnstile(self) -> Turnstile:
        return Turnstile(self._places, self._silent_seconds or _WAIT_SECONDS, _LONGEST_WAIT_SECONDS)

    def _make_engine(self, isolation_level: str) -> Engine:
        # What statements carry (prompts, labels, hashes of tokens) is nothing for logs and error messages.
        engine = create_engine(
            self._url, isolation_level=isolation_level, hide_parameters=True, **self._options
        )
        if self._silent_seconds is not None:
            patient = connection_type(self._silent_seconds)
            event.listen(engine, "do_connect", lambda _d, _r, args, kwargs: patient.connect(*args, **kwargs))
        return engine

    def transaction(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work(session, ...)`` in one transaction and commit it.

        The whole of it runs again after a deadlock, a serialisation failure, a lock timeout, or a lost connection, so
        it must be safe to repeat even when an earlier commit went through unnoticed. Raises Unavailable when the
        database stays away or takes too long, Busy when others hold what it needs, and Crowded when no connection
        comes free.
        """
        with silence_from_now():
            return self._repeated(self.engine, self._turnstile, work, *args, **kwargs)

    def read(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that only reads, each statement by itself: no messages to begin and end a transaction.

        Nothing is lost by that: also in a transaction every statement sees what is committed when it begins.
        """
        with silence_from_now():
            return self._repeated(self._reader, self._turnstile_of_reader, work, *args, **kwargs)

    def _repeated(
        self,
        engine: Engine,
        turnstile: Turnstile,
        work: Callable[Concatenate[Session, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        deadline = time.monotonic() + self._retry_seconds
        tries = 0
        while True:
            tries += 1
            try:
                with (
                    turnstile.turn(),
                    Session(engine, expire_on_commit=False) as session,
                    session.begin(),
                ):
                    return work(session, *args, **kwargs)
            except DBAPIError as error:
                kind = _kind(error)
                if kind == "other":
                    raise
                late = time.monotonic() >= deadline
                if kind == "clash":
                    late = tries >= _MAX_CLASHES or (late and tries >= _MIN_CLASHES)
                if kind == "slow":
                    raise TooSlow(_reason(error)) from error
                if late and kind == "clash":
                    raise Busy(
                        f"others are changing the same rows ({_first_line(error)}); try again shortly"
                    ) from error
                if late:
                    raise Unavailable(_reason(error)) from error
            time.sleep(_pause(tries))

    def connected_at(self) -> datetime:
        """The database's time of asking; the reconciler notes it whenever it has been cut off."""
        now: datetime = self.transaction(
            lambda session: session.execute(text("SELECT clock_timestamp()")).scalar_one()
        )
        return now

    def close(self) -> None:
        """Close the connections, those that threads are using as soon as they give them back.

        The object may be used again.
        """
        for engine in (self.engine, self._reader):
            event.listen(engine.pool, "checkin", lambda _connection, record: record.invalidate())
            engine.dispose()

    def forget(self) -> None:
        """After a fork, in the child: leave the parent's connections alone and start with none."""
        self.engine.dispose(close=False)
        self._reader.dispose(close=False)
        self._turnstile, self._turnstile_of_reader = self._make_turnstile(), self._make_turnstile()


def _connect_arguments(settings: ServiceSettings, name: str, durable: bool) -> dict[str, Any]:
    options = {
        "statement_timeout": _milliseconds(settings.statement_timeout_seconds),
        "lock_timeout": _milliseconds(settings.lock_timeout_seconds),
        "idle_in_transaction_session_timeout": _milliseconds(settings.idle_timeout_seconds),
        "timezone": "UTC",
        # Compiling pays for long analytic queries; ours are short.
        "jit": "off",
    }
    if not durable:
        options["synchronous_commit"] = "off"
    return {
        "application_name": name,
        "connect_timeout": settings.connect_timeout_seconds,
        "options": " ".join(f"-c {key}={value}" for key, value in options.items()),
        # A peer that vanished without a word is noticed within seconds, not after the system's two hours.
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _kind(error: DBAPIError) -> str:
    """``clash``: another transaction was in the way; ``away``: no server; ``slow``; ``other``: repeating is no help."""
    state = getattr(error.orig, "sqlstate", None)
    if state in _CLASHES:
        return "clash"
    if state in _TOO_SLOW:
        return "slow"
    if error.connection_invalidated or state in _SERVER_AWAY or (state or "").startswith("08"):
        return "away"
    # A connection that could not be made has no state.
    return "away" if state is None and isinstance(error, OperationalError) else "other"


def _reason(error: DBAPIError) -> str:
    return f"the database does not answer ({_first_line(error)}); try again shortly"


def _first_line(error: DBAPIError) -> str:
    cause = str(error.orig).strip().splitlines()
    return cause[0] if cause else type(error).__name__


def _pause(tries: int) -> float:
    longest: float = min(_PAUSE_CAP_SECONDS, _PAUSE_SECONDS * 2.0 ** min(tries - 1, 10))
    return random.uniform(0.5, 1.5) * longest
