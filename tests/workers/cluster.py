"""Servers, workers and reconcilers of a test, as processes of their own that a test may kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from celery import Celery
from redis import Redis
from sqlalchemy import text

from deploy.standalone.valkey import ValkeyServer
from models.base import new_id
from models.control import cancel
from models.database import Database
from models.dispatch import Doorbell
from models.invariants import broken_levels, broken_rules
from models.jobs import ENDED, Job
from models.settings import ServiceSettings
from models.submit import submit
from skipmap.spec import JobSpec
from tests.models.bench import make_spec
from tests.workers import fake, fake_reconciler
from tests.workers.fake import Plan
from tests.workers.nursery import Offspring
from workers.app import ANY_QUEUE, make_app, ring

Process = subprocess.Popen[bytes] | Offspring

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 60
"""Of every wait: the machine may be busy, and only a fault takes that long."""
QUEUE = f"skipmap:{ANY_QUEUE}"
"""The list that holds the messages for workers of all kinds."""
TABLES = ("chunks", "evaluations", "ranks", "findings", "attempts", "levels", "events")
OF_WORKERS = TABLES[:5]
"""Those that workers alone write while a job is being worked on."""
FAST = {
    # What a busy machine may take for a fault is long; tests that wait for it make it shorter.
    "lease_seconds": 60.0,
    "heartbeat_seconds": 0.5,
    "watch_seconds": 0.1,
    "sweep_seconds": 0.1,
    "stall_seconds": 30.0,
    "load_seconds": 30.0,
    "cancel_grace_seconds": 3.0,
    "backoff_seconds": 0.05,
    "backoff_cap_seconds": 0.2,
    "redispatch_seconds": 1.0,
    "retry_seconds": 1.0,
}
SHORT_LEASE = {"lease_seconds": 3.0}
SHORT_STALL = {"stall_seconds": 2.0, "load_seconds": 2.0}


class Cluster:
    """One database, one broker, and what works on them. Everything ends with ``stop``."""

    def __init__(self, folder: Path, database_url: str, valkey: ValkeyServer, **settings: Any) -> None:
        self.folder, self.valkey = folder, valkey
        self.values = FAST | settings
        self.settings = ServiceSettings(database_url=database_url, broker_url=valkey.url, **self.values)
        self.database = Database(self.settings)
        self.processes: dict[str, Process] = {}
        self.database_address = database_url
        """Of the database, for processes that start from now on."""
        folder.mkdir(parents=True, exist_ok=True)

    def plan(self, name: str = "fake-0", **plan: Any) -> Plan:
        return Plan(folder=str(self.folder), name=name, **plan)

    def start_worker(self, name: str = "fake-0", *, place: str | None = None, **plan: Any) -> Process:
        """``place``: its name in the database, when another process of the test has it as well."""
        return self._start(name, fake.run, self.plan(place or name, **plan))

    def start_reconciler(self, name: str = "reconciler-0", **plan: Any) -> Process:
        return self._start(name, fake_reconciler.run, self.plan(name, **plan))

    def _start(self, name: str, run: Callable[[Plan], int], plan: Plan) -> Process:
        self.processes[name] = Offspring(run, plan, self.folder / f"{name}.log", self._environment)
        return self.processes[name]

    def run(self, name: str, *arguments: str, **more: str) -> Process:
        """Run Python with the settings of this cluster and ``more`` in its environment."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self._environment | more,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.processes[name]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **{f"SKIPMAP_{key.upper()}": str(value) for key, value in self.values.items()},
            "SKIPMAP_DATABASE_URL": self.database_address,
            "SKIPMAP_BROKER_URL": str(self.settings.broker_url),
            "SKIPMAP_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }

    @cached_property
    def app(self) -> Celery:
        """For messages from the test itself."""
        return make_app(self.settings)

    @cached_property
    def broker(self) -> Redis:
        """The broker, as its owner may talk to it."""
        return Redis.from_url(self.valkey.client_url)

    def ring(self, chunk_id: str, times: int = 1) -> None:
        """Send messages that name a chunk."""
        for _ in range(times):
            ring(self.app, Doorbell(chunk_id, None))

    def child_of(self, name: str) -> int:
        """Process id of the working child of a worker, once it is there."""
        return self.until(lambda: self._child(name), f"{name} has a child")

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

    def stop_receiving(self, name: str) -> None:
        """Freeze a worker's main process; its child goes on, and says that it has nothing to do."""
        self.child_of(name)
        self.kill(name, signal.SIGSTOP)
        self.until(lambda: self.broker.info("clients")["blocked_clients"] == 0, "nobody waits for messages")

    def wait_for_exit(self, name: str) -> int:
        """Exit code of a process of the test's."""
        process = self.processes[name]
        self.until(lambda: process.poll() is not None, f"{name} ends")
        return process.returncode

    def submit(self, spec: JobSpec | None = None, **options: Any) -> str:
        job, _ = self.database.transaction(submit, spec or make_spec(), new_id(), **options)
        return job.id

    def cancel(self, job_id: str) -> None:
        self.database.transaction(cancel, job_id)

    def state(self, job_id: str) -> str:
        return self.database.transaction(lambda session: session.get_one(Job, job_id).state)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Rows of a statement; a single column comes without its tuple."""

        def run(session: Any) -> list[Any]:
            found = session.execute(text(statement), values)
            rows = found.all() if found.returns_rows else []
            return [row[0] if len(row) == 1 else tuple(row) for row in rows]

        return self.database.transaction(run)

    def stored(self, job_id: str) -> dict[str, str]:
        """Owner of each stored evaluation of a job, by configuration."""
        return dict(self.sql("SELECT skip_key, owner FROM evaluations WHERE job_id = :id", id=job_id))

    def outcomes(self, job_id: str) -> Counter[str]:
        """How the claims of a job ended, and how often."""
        return Counter(self.sql("SELECT outcome FROM attempts WHERE job_id = :id", id=job_id))

    def errors(self, job_id: str) -> list[str]:
        """What the attempts of a job that failed say."""
        return self.sql("SELECT error FROM attempts WHERE job_id = :id AND error IS NOT NULL", id=job_id)

    def rows(self, job_id: str, tables: Sequence[str] = TABLES) -> dict[str, list[str]]:
        """All rows of a job, to see that nothing has changed."""
        return {
            name: sorted(self.sql(f"SELECT to_jsonb(t)::text FROM {name} AS t WHERE job_id = :id", id=job_id))
            for name in tables
        }

    def wait_for(self, look: Callable[[], Any], seconds: float, what: str) -> Any:
        """The first true value of ``look``; fails with the ends of all logs when it takes too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"not within {seconds} s: {what}\n{self.logs()}")

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """``wait_for``, as long as it may take on a busy machine."""
        return self.wait_for(look, PATIENCE_SECONDS, what)

    def wait_for_mark(self, name: str) -> None:
        """Wait until a process makes a mark."""
        self.until((self.folder / name).exists, f"mark {name}")

    def wait_for_log(self, name: str, words: str) -> None:
        """Wait until a process says something."""
        path = self.folder / f"{name}.log"
        self.until(lambda: words in path.read_text(errors="replace"), f"{name} says {words!r}")

    def wait_for_sweeps(self) -> None:
        """Wait until a reconciler has swept twice from now on."""
        look = "SELECT max(swept_at) FROM reconcilers"
        (begin,) = self.sql(look)
        (later,) = self.until(lambda: [t for t in self.sql(look) if t != begin], "a sweep")
        self.until(lambda: self.sql(look) != [later], "one more sweep")

    def wait_until_ended(self, job_id: str, seconds: float = PATIENCE_SECONDS) -> str:
        return self.wait_for(
            lambda: state if (state := self.state(job_id)) in ENDED else None, seconds, f"{job_id} ends"
        )

    def mark(self, name: str) -> None:
        """Make a mark that a process waits for."""
        (self.folder / name).touch()

    def catch_in_the_middle(self, name: str = "fake-0", **plan: Any) -> str:
        """A job whose worker hangs in the second level's second group; what comes before is stored."""
        self.start_reconciler()
        self.start_worker(name, on={"2": "once:hang"}, **plan)
        job_id = self.submit()
        self.wait_for_mark("once-2")
        assert set(self.stored(job_id)) == {"dense", "0", "1"}
        return job_id

    def log(self) -> list[dict[str, Any]]:
        """What fake workers evaluated."""
        path = self.folder / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def times_begun(self, key: str) -> int:
        """How often a unit's evaluation was begun."""
        return sum(entry["what"] == "begin" and key in entry["keys"] for entry in self.log())

    def times_evaluated(self) -> Counter[str]:
        """How often each unit's evaluation came to its end, over all jobs."""
        return Counter(
            f"{entry['job']} {key}" for entry in self.log() if entry["what"] == "end" for key in entry["keys"]
        )

    def evaluated_once(self) -> bool:
        """Whether nothing was evaluated to its end twice."""
        return set(self.times_evaluated().values()) == {1}

    def check(self) -> None:
        """The invariants hold; ``make_cluster`` sees to it after every test."""
        assert self.database.transaction(broken_rules) == []
        for job_id in self.sql("SELECT id FROM jobs"):
            assert self.database.transaction(broken_levels, job_id) == []

    def logs(self) -> str:
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            parts += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-25:]]
        return "\n".join(parts)

    def end_processes(self) -> None:
        for process in self.processes.values():
            for number in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            process.wait()

    def stop(self) -> None:
        self.end_processes()
        if "app" in self.__dict__:
            self.app.close()
        if "broker" in self.__dict__:
            self.broker.close()
        self.database.close()
