"""Servers, workers and reconcilers of a test, as processes of their own that a test may kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deploy.standalone.valkey import ValkeyServer
from models.base import new_id
from models.database import Database
from models.invariants import broken_levels, broken_rules
from models.jobs import ENDED, Job
from models.settings import ServiceSettings
from models.submit import submit
from skipmap.spec import JobSpec
from tests.models.bench import make_spec
from tests.workers.fake import Plan

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.02
FAST = {
    "lease_seconds": 3.0,
    "heartbeat_seconds": 0.5,
    "watch_seconds": 0.05,
    "sweep_seconds": 0.05,
    "stall_seconds": 2.0,
    "load_seconds": 2.0,
    "cancel_grace_seconds": 3.0,
    "backoff_seconds": 0.05,
    "backoff_cap_seconds": 0.2,
    "redispatch_seconds": 1.0,
    "retry_seconds": 1.0,
}


class Cluster:
    """One database, one broker, and what works on them. Everything ends with ``stop``."""

    def __init__(self, folder: Path, database_url: str, valkey: ValkeyServer, **settings: Any) -> None:
        self.folder, self.valkey = folder, valkey
        self.values = FAST | settings
        self.settings = ServiceSettings(database_url=database_url, broker_url=valkey.url, **self.values)
        self.database = Database(self.settings)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def plan(self, name: str = "fake-0", **plan: Any) -> Plan:
        return Plan(folder=str(self.folder), name=name, **plan)

    def start_worker(self, name: str = "fake-0", **plan: Any) -> subprocess.Popen[bytes]:
        return self._start(name, "tests/workers/fake.py", self.plan(name, **plan))

    def start_reconciler(self, name: str = "reconciler-0", **plan: Any) -> subprocess.Popen[bytes]:
        return self._start(name, "tests/workers/fake_reconciler.py", self.plan(name, **plan))

    def _start(self, name: str, script: str, plan: Plan) -> subprocess.Popen[bytes]:
        return self.run(name, str(ROOT / script), json.dumps(asdict(plan)))

    def run(self, name: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        """Run Python with the settings of this cluster and ``more`` in its environment."""
        environment = {
            **os.environ,
            **{f"SKIPMAP_{key.upper()}": str(value) for key, value in self.values.items()},
            "SKIPMAP_DATABASE_URL": self.settings.database_url,
            "SKIPMAP_BROKER_URL": str(self.settings.broker_url),
            "SKIPMAP_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **more,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def child_of(self, name: str) -> int:
        """Process id of the working child of a worker, once it is there."""
        return self.wait_for(lambda: self._child(name), 15, f"{name} has a child")

    def _child(self, name: str) -> int | None:
        found = self.sql("SELECT pid FROM workers WHERE owner = :owner", owner=name)
        if not found:
            return None
        try:
            parent = int(Path(f"/proc/{found[0]}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return None
        return found[0] if parent == self.processes[name].pid else None

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signal a worker's or reconciler's main process; wait for its end when that must follow."""
        process = self.processes[name]
        with suppress(ProcessLookupError):
            process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait()

    def submit(self, spec: JobSpec | None = None, **options: Any) -> str:
        job, _ = self.database.transaction(submit, spec or make_spec(), new_id(), **options)
        return job.id

    def state(self, job_id: str) -> str:
        return self.database.transaction(lambda session: session.get_one(Job, job_id).state)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Rows of a statement; a single column comes without its tuple."""
        from sqlalchemy import text

        def run(session: Any) -> list[Any]:
            found = session.execute(text(statement), values)
            rows = found.all() if found.returns_rows else []
            return [row[0] if len(row) == 1 else tuple(row) for row in rows]

        return self.database.transaction(run)

    def wait_for(self, look: Callable[[], Any], seconds: float, what: str) -> Any:
        """The first true value of ``look``; fails with the ends of all logs when it takes too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"not within {seconds} s: {what}\n{self.logs()}")

    def wait_until_ended(self, job_id: str, seconds: float = 30) -> str:
        return self.wait_for(
            lambda: state if (state := self.state(job_id)) in ENDED else None, seconds, f"{job_id} ends"
        )

    def log(self) -> list[dict[str, Any]]:
        """What fake workers evaluated."""
        path = self.folder / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def times_evaluated(self) -> Counter[str]:
        """How often each unit's evaluation came to its end."""
        return Counter(key for entry in self.log() if entry["what"] == "end" for key in entry["keys"])

    def check(self) -> None:
        """The invariants hold; call it after every test."""
        assert self.database.transaction(broken_rules) == []
        for job_id in self.sql("SELECT id FROM jobs"):
            assert self.database.transaction(broken_levels, job_id) == []

    def logs(self) -> str:
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-25:]]
        return "\n".join(parts)

    def stop(self) -> None:
        for process in self.processes.values():
            for number in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            process.wait()
        self.database.close()
