"""Worker and reconciler processes forked from one that has imported everything: each start saves a second of CPU."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.workers.fake import Plan

PRELOADED = (
    "tests.workers.fake",
    "tests.workers.fake_reconciler",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "pytest",
    "sqlalchemy.dialects.postgresql.psycopg",
    "workers.transport",
)
_forks = multiprocessing.get_context("forkserver")


class Offspring:
    """A process that heads a session of its own; it is used like a ``subprocess.Popen``."""

    def __init__(
        self, main: Callable[[Plan], int], plan: Plan, log: Path, environment: dict[str, str]
    ) -> None:
        log.touch()
        _forks.set_forkserver_preload(list(PRELOADED))
        self._process = _forks.Process(target=_run, args=(main, asdict(plan), str(log), environment))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended after {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(main: Callable[[Plan], int], plan: dict[str, object], log: str, environment: dict[str, str]) -> None:
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    # The server that forks ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(main(Plan(**plan)))
