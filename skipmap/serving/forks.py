"""Tells objects with threads and sockets that their process has been forked."""

from __future__ import annotations

import logging
import os
import weakref
from typing import Protocol

_log = logging.getLogger("skipmap.serving")


class Forkable(Protocol):
    """Something that must start anew in a child process."""

    def after_fork(self) -> None:
        """Called in the child before its own code runs; only the thread that has forked lives there."""


_WATCHED: weakref.WeakSet[Forkable] = weakref.WeakSet()


def watch(thing: Forkable) -> None:
    """Call ``thing.after_fork()`` in every child, as long as it lives."""
    _WATCHED.add(thing)


def _in_child() -> None:
    for thing in list(_WATCHED):
        try:
            thing.after_fork()
        except Exception:
            _log.exception("%r could not start anew after a fork", thing)


# There is no such call on Windows, where nothing forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
