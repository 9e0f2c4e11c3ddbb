"""A manager in a process of its own, as ``up`` runs it, whose parts are small processes of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from deploy.standalone.running import RunFolder, pid_in

ROOT = Path(__file__).resolve().parents[3]
LIMIT_SECONDS = 60.0
PARTS = ("api", "worker", "reconciler")

UP = """
import sys
from pathlib import Path
from deploy.standalone import children, stack
from deploy.standalone.__main__ import main

part, folder = sys.argv[1:]

def applications(port):
    return tuple(
        children.Application(name, (sys.executable, "-S", part, name, folder, str(at)), 5.0, "it drains" * (not at))
        for name, at in (("api", port), ("worker", 0), ("reconciler", 0))
    )

children.ORPHAN_SECONDS = 1.5
stack.Stack.__init__.__kwdefaults__["programs"] = applications
sys.exit(main(["up"]))
"""


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; fails in the end."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.02)


@dataclass
class Managed:
    """A home and the managers that run on it."""

    home: Path
    environment: dict[str, str]
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def up(self, *, real: bool = False, terminal: int | None = None) -> subprocess.Popen[str]:
        """Start a manager, with real parts on demand; a terminal gets what it prints, else ``output``."""
        parts = str(Path(__file__).with_name("part.py")), str(self.folder)
        with self.output.open("a") as output:
            process = subprocess.Popen(
                [sys.executable, *(("-m", "deploy.standalone", "up") if real else ("-c", UP, *parts))],
                cwd=ROOT,
                env=self.environment,
                stdout=output if terminal is None else terminal,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.processes.append(process)
        return process

    def ready(self, process: subprocess.Popen[str]) -> None:
        """Wait until the manager says that all is ready, and the tests' parts say that they have begun."""
        wait_for(lambda: self._is_ready(process.pid) or process.poll() is not None, "ready")
        assert process.poll() is None, self.said
        if (self.folder / "api.pid").exists():
            # A manager counts a process as running before the process has run a line.
            wait_for(lambda: all(map(self._has_begun, PARTS)), "the parts begin")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run ``down`` or ``status``, or a second ``up``, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "deploy.standalone", command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )

    def touch(self, name: str) -> None:
        """Make a part behave in another way, see ``part.py``."""
        (self.folder / name).touch()

    @property
    def output(self) -> Path:
        """What the managers print."""
        return self.folder / "output"

    @property
    def said(self) -> str:
        """What the managers have printed."""
        return self.output.read_text(encoding="utf-8")

    @property
    def happened(self) -> list[str]:
        """What the parts have noted."""
        place = self.folder / "happened"
        return place.read_text().splitlines() if place.exists() else []

    @property
    def url(self) -> str:
        """The address, as the manager has written it down."""
        manager = RunFolder(self.home).manager()
        assert manager is not None
        return manager.url

    def _is_ready(self, pid: int) -> bool:
        manager = RunFolder(self.home).manager()
        return manager is not None and manager.pid == pid and manager.ready

    def _has_begun(self, name: str) -> bool:
        said = self.folder / f"{name}.pid"
        # The line end tells a whole number from the beginning of one.
        return said.exists() and said.read_text() == f"{pid_in(self.home / 'manager' / f'{name}.json')}\n"

    def pid(self, name: str) -> int:
        """The id of a part that runs."""
        found = pid_in(self.home / "manager" / f"{name}.json")
        assert found is not None
        return found

    @property
    def left_over(self) -> list[psutil.Process]:
        """Processes that have this home in their environment or, as keepers have it, in their command."""
        found, home = [], str(self.home)
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                words = process.cmdline()
                if process.environ().get("SKIPMAP_HOME") == home or any(
                    home in word or json.dumps(home)[1:-1] in word for word in words
                ):
                    found.append(process)
        return found


@pytest.fixture
def make_managed(home: Path, tmp_path: Path) -> Iterator[Callable[..., Managed]]:
    """Make a home to manage, whose path has spaces; whatever still runs in the end is killed."""
    made: list[Managed] = []

    def make(**given: str) -> Managed:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SKIPMAP_")}
        environment |= {"SKIPMAP_HOME": str(home), "SKIPMAP_PORT": "0", **given}
        folder = tmp_path / "parts of it"
        folder.mkdir(exist_ok=True)
        made.append(Managed(home, environment, folder))
        return made[-1]

    yield make
    for managed in made:
        for process in managed.processes:
            process.kill()
            process.wait()
        wait_for(lambda managed=managed: not managed.left_over, "nothing runs after the test")


@pytest.fixture
def managed(make_managed: Callable[..., Managed], database_url: str) -> Managed:
    """A home whose servers are given, so that only the parts are started."""
    # Nobody connects to the broker here.
    return make_managed(SKIPMAP_DATABASE_URL=database_url, SKIPMAP_BROKER_URL="redis://127.0.0.1:1/0")
