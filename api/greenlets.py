"""Greenlets: what keeps a process that serves many requests at a time from being held up by one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from gevent import Timeout
from gevent.monkey import is_module_patched
from gevent.threadpool import ThreadPool

Result = TypeVar("Result")

SWITCH_SECONDS = 0.0005
"""How long a thread may go on while greenlets wait for their turn; set where a process starts."""

_THREADS = 2
_SMALL_BYTES = 16 << 10
_LARGE_BYTES = 1 << 20


def aside(work: Callable[[], Result], size: int) -> Result:
    """Do what computes for long in a thread while other requests are served; returns or raises what the work does.

    ``size``: bytes that are worked on; few are done at once, and large ones one after the other, so that short work
    does not wait for them. Work must not use the request, nor the database.
    """
    if size <= _SMALL_BYTES or not _in_use():
        return work()

    def attempt() -> tuple[bool, Result | Exception]:
        # What a pool's thread raises is also printed.
        try:
            return True, work()
        except Exception as error:
            return False, error

    done, outcome = (_threads() if size < _LARGE_BYTES else _thread_of_large()).apply(attempt)
    if not done:
        raise outcome
    result: Result = outcome
    return result


@contextmanager
def within(seconds: float, error: Exception) -> Iterator[None]:
    """Raise the error in a block that waits for longer; where there are no greenlets it may wait for ever."""
    if not _in_use():
        yield
        return
    with Timeout(seconds, error):
        yield


def _in_use() -> bool:
    return bool(is_module_patched("socket"))


@cache
def _threads() -> ThreadPool:
    # Few, for they all take their turns with the greenlets.
    return ThreadPool(_THREADS)


@cache
def _thread_of_large() -> ThreadPool:
    return ThreadPool(1)
