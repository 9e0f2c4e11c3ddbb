"""Forks: objects with threads and sockets start anew in a child, and a fork waits for a harmless moment.

A fork copies memory as other threads have left it, half done things and taken locks included, also those inside of
native libraries (a validator that is being built, TLS). So our own threads say when they only wait, and a fork waits,
for a short time, until they do.
"""

from __future__ import annotations

# Looking up a host name imports it, at a moment at which a fork may come.
import encodings.idna  # noqa: F401
import logging
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_LONGEST_WAIT_SECONDS = 1.0
"""A thread that is busy for longer, such as in a handshake with a slow service, is not waited for."""

_log = logging.getLogger("skipmap.serving")


class Forkable(Protocol):
    """Something that must start anew in a child process."""

    def after_fork(self) -> None:
        """Called in the child before its own code runs; only the thread that has forked lives there."""


class Gate:
    """Keeps forks and what must not be cut in half apart. Many threads may be inside at once."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._inside: set[int] = set()
        self._forks = 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside: a fork by another thread waits."""
        me = threading.get_ident()
        if me in self._inside:
            yield
            return
        self._enter(me)
        try:
            yield
        finally:
            self._leave(me)

    @contextmanager
    def parked(self) -> Iterator[None]:
        """Be outside for a while, in order to wait for something."""
        was_inside = self.leave()
        try:
            yield
        finally:
            if was_inside:
                self.come_back()

    def leave(self) -> bool:
        """Go outside; whether this thread was inside."""
        me = threading.get_ident()
        if me not in self._inside:
            return False
        self._leave(me)
        return True

    def come_back(self) -> None:
        """Go inside again, after a fork that is on its way."""
        self._enter(threading.get_ident())

    def close(self) -> None:
        """Before a fork: wait until no other thread is inside, and let none in."""
        me = threading.get_ident()
        with self._turn:
            self._forks += 1
            self._turn.wait_for(lambda: self._inside <= {me}, _LONGEST_WAIT_SECONDS)

    def open(self) -> None:
        """After a fork, in the parent."""
        with self._turn:
            self._forks -= 1
            self._turn.notify_all()

    def _enter(self, me: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._forks == 0)
            self._inside.add(me)

    def _leave(self, me: int) -> None:
        with self._turn:
            self._inside.discard(me)
            self._turn.notify_all()


_WATCHED: weakref.WeakSet[Forkable] = weakref.WeakSet()
_gate = Gate()


def gate() -> Gate:
    """The gate of this process."""
    return _gate


def watch(thing: Forkable) -> None:
    """Call ``thing.after_fork()`` in every child, as long as it lives."""
    _WATCHED.add(thing)


def _before() -> None:
    _gate.close()


def _in_parent() -> None:
    _gate.open()


def _in_child() -> None:
    global _gate
    _gate = Gate()
    for thing in list(_WATCHED):
        try:
            thing.after_fork()
        except Exception:
            _log.exception("%r could not start anew after a fork", thing)


# There is no such call on Windows, where nothing forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
