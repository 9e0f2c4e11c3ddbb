"""Ctrl-C and SIGTERM as questions that the main loop asks, so that everything stops in order."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType
from typing import Any, Self


class StopRequest:
    """Whether somebody asked to stop; a second Ctrl-C or SIGTERM asks to hurry. For the main thread."""

    def __init__(self) -> None:
        self._times = 0
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self._times > 0

    @property
    def hurried(self) -> bool:
        """Whether to stop without waiting."""
        return self._times > 1

    def wait(self, seconds: float) -> None:
        """Wait; a signal and the end of a child process end it early."""
        select.select([self._read], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 512)

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            # What nohup ignores stays ignored.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._read)
        os.close(self._write)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            # A terminal that closes may say so twice.
            self._times = max(self._times, 1)
        elif number != signal.SIGCHLD:
            self._times += 1
