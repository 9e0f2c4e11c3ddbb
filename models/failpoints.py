"""Failpoints: named places where a test may make a process stop, die or fail. Nothing outside tests arms one."""

from __future__ import annotations

from collections.abc import Callable

_armed: dict[str, Callable[[], None]] = {}


def reach(name: str) -> None:
    """Pass a failpoint; does nothing unless it is armed."""
    action = _armed.get(name)
    if action is not None:
        action()


def arm(name: str, action: Callable[[], None]) -> None:
    """Let ``action`` run whenever the failpoint is passed in this process."""
    _armed[name] = action


def disarm(name: str) -> None:
    """Undo ``arm``."""
    _armed.pop(name, None)
