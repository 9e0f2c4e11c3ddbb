"""Skipmap as ``make up`` runs it, on a home of the tests' own, and a node that follows one of its channels."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.standalone.locks import FileLock
from deploy.standalone.processes import KeptProcess, Program
from deploy.standalone.running import RunFolder
from skipmap.client.client import Client
from skipmap.client.server import ADMIN_TOKEN_FILE, Server
from skipmap.maps.keys import DEFAULT_KEY_FILE, public_file

ROOT = Path(__file__).resolve().parents[3]
TARGET = "smollm2-135m-instruct"
MAP, CHANNEL, NODE = "story", "production", "node-of-the-story"
NODE_POLL_SECONDS = 1
LONG_SECONDS = 120.0
"""What a start, or a job, may take on a busy machine."""
STOP_SECONDS = 120.0
_LOOK_SECONDS = 0.05


def wait_for(look: Callable[[], Any], what: str, seconds: float = LONG_SECONDS) -> Any:
    """The first true value of ``look``; fails when it takes too long."""
    limit = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < limit, f"not within {seconds:.0f} s: {what}"
        time.sleep(_LOOK_SECONDS)
    return found


@dataclass
class Stack:
    """All parts, each a process of its own, which ends with this one. ``environment``: what they see."""

    home: Path
    environment: Mapping[str, str]
    lock: FileLock
    url: str = ""
    processes: dict[str, KeptProcess] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """Of the administrator."""
        return (self.home / ADMIN_TOKEN_FILE).read_text(encoding="ascii").strip()

    def client(self) -> Client:
        """The API's client, as the administrator."""
        return Client(Server(self.url, self.token))

    def start(self) -> None:
        """Start all parts and wait until jobs can run."""
        process = self._run("up", "-m", "deploy.standalone", "up")
        run = RunFolder(self.home)

        def is_ready() -> bool:
            assert process.poll() is None, self.said
            manager = run.manager()
            self.url = manager.url if manager is not None else ""
            return manager is not None and manager.ready

        wait_for(is_ready, "Skipmap is ready")

    def start_node(self) -> None:
        """Start a node of the channel; it loads the model, and then tells the service of itself."""
        key = public_file(self.home / DEFAULT_KEY_FILE)
        self._run(
            "node",
            *("-c", "import sys; from skipmap.cli import main; sys.exit(main())", "serve"),
            *("--target", TARGET, "--dtype", "float32", "--device", "cpu", "--draft", "prompt_lookup"),
            *("--map", MAP, "--channel", CHANNEL, "--node-id", NODE, "--server", self.url),
            *("--token-file", str(self.home / ADMIN_TOKEN_FILE), "--keys", str(key)),
            *("--poll-seconds", str(NODE_POLL_SECONDS), "--port", "0"),
        )

    def stop(self) -> None:
        """End everything, the node first."""
        for name in ("node", "up"):
            if name in self.processes:
                self.processes[name].stop()

    @property
    def said(self) -> str:
        """The ends of all logs."""
        parts = []
        for path in sorted((*self.home.glob("*.log"), *self.home.glob("logs/*.log"))):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-25:]]
        return "\n".join(parts)

    def _run(self, name: str, *arguments: str) -> KeptProcess:
        program = Program(
            (sys.executable, *arguments),
            ((signal.SIGTERM, STOP_SECONDS),),
            environment=self.environment,
            directory=ROOT,
            orphan_seconds=STOP_SECONDS,
        )
        self.processes[name] = KeptProcess(program, log=self.home / f"{name}.log", lock=self.lock)
        return self.processes[name]


@contextmanager
def running(cache: Path, **variables: str) -> Iterator[Stack]:
    """A stack on an empty home, until the block ends; ``cache``: where set-up has put the demo model."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > 2_000_000_000
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SKIPMAP_")}
    with (
        tempfile.TemporaryDirectory(prefix="skipmap-browser-", dir=memory if has_room else None) as folder,
        FileLock(Path(folder) / "tests.lock") as lock,
    ):
        assert lock.try_acquire()
        own = {
            "SKIPMAP_HOME": folder,
            "SKIPMAP_CACHE": str(cache),
            "SKIPMAP_PORT": "0",
            # The tests, the browser and two servers share the cores with it.
            "OMP_NUM_THREADS": "1",
        }
        stack = Stack(Path(folder), kept | own | variables, lock)
        try:
            stack.start()
            stack.start_node()
            yield stack
        finally:
            stack.stop()
