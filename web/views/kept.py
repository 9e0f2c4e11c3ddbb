"""Values that are worth keeping in memory, a few of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass
class _Turn:
    """Who may make a value just now; ``wanted``: how many make it or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


class Kept(Generic[Key, Value]):
    """The values that were used last. They must never change; nothing is kept for a key that has none.

    ``most``: how much all of them may come to, counted by ``size``, which without one is their number. The value that
    was made last is kept whatever its size.
    """

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        self._most, self._size = most, size
        self._total = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._turns: dict[Key, _Turn] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Value | None]) -> Value | None:
        """The value of a key, made when it is not there. Of those who ask meanwhile, one makes it for all."""
        value = self._found(key)
        if value is not None:
            return value
        with self._alone(key):
            value = self._found(key)
            if value is None and (value := make()) is not None:
                self._keep(key, value)
            return value

    def _found(self, key: Key) -> Value | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def _keep(self, key: Key, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._total += self._size(value)
            while self._total > self._most and len(self._values) > 1:
                _, gone = self._values.popitem(last=False)
                self._total -= self._size(gone)

    @contextmanager
    def _alone(self, key: Key) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.wanted += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.wanted -= 1
                if not turn.wanted:
                    del self._turns[key]
