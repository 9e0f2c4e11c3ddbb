"""Chaos: workers, reconcilers and servers that are killed, frozen and restarted at random while jobs run.

``python -m tests.workers.chaos --seconds 600 [--seed N]``. What happens, in which order, follows from the seed; what
it hits depends on how fast the machine is.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from celery.platforms import EX_FAILURE
from sqlalchemy.orm import Session

from deploy.standalone.postgres import PostgresServer
from deploy.standalone.valkey import ValkeyServer
from migrations.run import upgrade
from models.control import cancel, pause, resume
from models.errors import Conflict, Unavailable
from models.jobs import ENDED, Job
from tests.models.bench import make_spec, random_table
from tests.workers.cluster import Cluster
from tests.workers.verdict import Witness, judge, tally

WORKERS = ("worker-0", "worker-1", "worker-2")
RECONCILERS = ("reconciler-0", "reconciler-1")
OPEN_JOBS = 4
LARGEST_GROUP = 3
STRATEGIES = ("tss", "tss", "greedy", "sleb")
LEASE_SECONDS = 3.0
TICK_SECONDS = 0.05
LOOK_SECONDS = 2.0
DRAIN_SECONDS = 30.0
START_SECONDS = 15.0
LOG_LINES = 60
CALM_SECONDS = 120.0
"""After the last fault: by then all jobs have ended."""

SETTINGS = {
    "lease_seconds": LEASE_SECONDS,
    # Cut small, so that every level has several chunks.
    "chunk_seconds": 1.0,
    # Only what the faults do counts: a busy machine is no hung forward, and nobody's chunk is set aside.
    "stall_seconds": 10.0,
    "load_seconds": 10.0,
    "max_crashes": 100,
    "quarantine_seconds": 2.0,
}


class Chaos:
    """One run over servers of its own."""

    def __init__(self, cluster: Cluster, postgres: PostgresServer, seed: int) -> None:
        self.cluster, self.postgres, self.seed = cluster, postgres, seed
        self.faults: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._witness = Witness(cluster)
        self._interrupted = 0
        self._ended_by_us: set[str] = set()
        self._thaw: dict[str, float] = {}
        self._drained: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._may_fail: set[str] = set()
        self._resume: dict[str, float] = {}
        self._looked = 0.0
        self._rng = self._pick = random.Random(seed)
        self._specs = random.Random(f"specs {seed}")
        self._faults: dict[Callable[[], None], int] = {
            self.kill_worker: 4,
            self.kill_child: 4,
            self.kill_reconciler: 3,
            self.drain_worker: 3,
            self.freeze_worker: 2,
            self.empty_broker: 2,
            self.restart_broker: 1,
            self.restart_database: 1,
            self.pause_job: 3,
            self.cancel_job: 1,
        }

    def run(self, seconds: float) -> list[str]:
        """Faults for so long, then calm until all jobs have ended; returns what is wrong."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # Every fault draws numbers of its own, so that the next one does not depend on what it met.
            fault_at = time.monotonic() + self._rng.uniform(0.2, 2.0)
            (fault,) = self._rng.choices(list(self._faults), weights=list(self._faults.values()))
            self._pick = random.Random(self._rng.random())
            while time.monotonic() < min(fault_at, end):
                self._tick(submit=True)
            self.faults[fault.__name__] += 1
            fault()
        calm = time.monotonic() + CALM_SECONDS
        while self._open_jobs() and time.monotonic() < calm:
            self._tick(submit=False)
        self.cluster.end_processes()
        self._witness.look()
        return (
            self.wrong + self._witness.wrong + judge(self.cluster, random_table(self.seed), self._interrupted)
        )

    def kill_worker(self) -> None:
        name = self._pick.choice(WORKERS)
        self._interrupted += LARGEST_GROUP
        self._end(name, signal.SIGKILL)

    def kill_child(self) -> None:
        name = self._pick.choice(WORKERS)
        parent = self.cluster.processes[name].pid
        if time.monotonic() - self._started[name] < START_SECONDS:
            self._may_fail.add(name)
        self._interrupted += LARGEST_GROUP
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)

    def kill_reconciler(self) -> None:
        self._end(self._pick.choice(RECONCILERS), signal.SIGKILL)

    def drain_worker(self) -> None:
        name = self._pick.choice(WORKERS)
        self._interrupted += LARGEST_GROUP
        self._drained.setdefault(name, time.monotonic() + DRAIN_SECONDS)
        self._end(name, signal.SIGTERM)

    def freeze_worker(self) -> None:
        """Stop all of a worker until its lease is long over."""
        name = self._pick.choice(WORKERS)
        self._interrupted += LARGEST_GROUP
        self._thaw[name] = time.monotonic() + 2 * LEASE_SECONDS
        self._signal_group(name, signal.SIGSTOP)

    def empty_broker(self) -> None:
        self.cluster.broker.flushall()

    def restart_broker(self) -> None:
        self._restart(self.cluster.valkey, signal.SIGKILL)

    def restart_database(self) -> None:
        """PostgreSQL's immediate shutdown, which leaves the next start a recovery."""
        self._restart(self.postgres, signal.SIGQUIT)

    def pause_job(self) -> None:
        jobs = self._open_jobs()
        if jobs:
            job_id = self._pick.choice(jobs)
            self._interrupted += LARGEST_GROUP * len(WORKERS)
            self._resume[job_id] = time.monotonic() + self._pick.uniform(0.0, 2.0)
            self._ask(pause, job_id)

    def cancel_job(self) -> None:
        jobs = self._open_jobs()
        if jobs:
            self._ask(cancel, self._pick.choice(jobs))

    def _tick(self, *, submit: bool) -> None:
        now = time.monotonic()
        for name in (*WORKERS, *RECONCILERS):
            self._supervise(name)
        for name in [name for name, at in self._thaw.items() if at <= now]:
            del self._thaw[name]
            self._signal_group(name, signal.SIGCONT)
        for job_id in [job_id for job_id, at in self._resume.items() if at <= now]:
            if self._ask(resume, job_id):
                del self._resume[job_id]
        if submit and len(self._open_jobs()) < OPEN_JOBS:
            self._submit()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._witness.look()
        time.sleep(TICK_SECONDS)

    def _ask(self, change: Callable[[Session, str], Job], job_id: str) -> bool:
        """What a user asks for; False when it has to be asked again, as while a frozen worker holds the job's row."""
        try:
            self.cluster.database.transaction(change, job_id)
        except Conflict:
            return True
        except Unavailable:
            return False
        return True

    def _supervise(self, name: str) -> None:
        """Start what has ended; nothing may end by itself, and what was asked to end must do so."""
        process = self.cluster.processes.get(name)
        code = None if process is None else process.poll()
        if process is not None and code is None:
            if self._drained.get(name, float("inf")) < time.monotonic() and name not in self._thaw:
                self.wrong.append(f"{name} did not end within {DRAIN_SECONDS:g} s of SIGTERM")
                self._end(name, signal.SIGKILL)
            return
        # A worker whose child dies while it starts says so and fails, for whoever started it to try again.
        failed = name in self._may_fail and code == EX_FAILURE
        if process is not None and name not in self._ended_by_us and not failed:
            self.wrong.append(f"{name} ended by itself with exit code {code}:\n{self._log_end(name)}")
        self._ended_by_us.discard(name)
        self._drained.pop(name, None)
        if self._thaw.pop(name, None) is not None:
            # A child that was frozen before it could ask to die with its parent keeps the place until it wakes.
            self._signal_group(name, signal.SIGCONT)
        self._may_fail.discard(name)
        self._started[name] = time.monotonic()
        start = self.cluster.start_worker if name in WORKERS else self.cluster.start_reconciler
        start(name, seed=self.seed, layers=6, seconds_per_unit=0.1)

    def _log_end(self, name: str) -> str:
        lines = (self.cluster.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])

    def _end(self, name: str, number: signal.Signals) -> None:
        self._ended_by_us.add(name)
        self.cluster.kill(name, number)

    def _signal_group(self, name: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.cluster.processes[name].pid, number)

    def _restart(self, server: PostgresServer | ValkeyServer, number: signal.Signals) -> None:
        assert server.pid is not None
        os.kill(server.pid, number)
        while server.is_running:
            time.sleep(TICK_SECONDS)
        server.start()

    def _submit(self) -> None:
        depth, group = self._specs.randint(2, 3), self._specs.randint(1, LARGEST_GROUP)
        strategy = self._specs.choice(STRATEGIES)
        more = {"max_pool": 5} if strategy == "tss" else {}
        self.cluster.submit(make_spec(strategy=strategy, max_depth=depth, group_size=group, **more))

    def _open_jobs(self) -> list[str]:
        return self.cluster.sql(
            "SELECT id FROM jobs WHERE state <> ALL(:ended) ORDER BY id", ended=list(ENDED)
        )


def run(folder: Path, seconds: float, seed: int) -> list[str]:
    """A run with its servers in a folder; says what it came to, and returns what is wrong."""
    print(f"chaos: seed {seed}, {seconds:g} s, files in {folder}", flush=True)
    with (
        PostgresServer(folder / "postgres", durable=False) as postgres,
        ValkeyServer(folder / "valkey") as valkey,
    ):
        upgrade(postgres.url)
        cluster = Cluster(folder / "cluster", postgres.url, valkey, **SETTINGS)
        try:
            chaos = Chaos(cluster, postgres, seed)
            wrong = chaos.run(seconds)
            print(f"faults: {', '.join(f'{count} {name}' for name, count in sorted(chaos.faults.items()))}")
            print(tally(cluster), flush=True)
        finally:
            cluster.stop()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.workers.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long faults go on (default 600)")
    parser.add_argument("--seed", type=int, default=None, help="repeat an earlier run's faults")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="skipmap-chaos-"))
    wrong = run(folder, options.seconds, seed)
    for line in wrong:
        print(f"WRONG: {line}", file=sys.stderr)
    if wrong:
        print(f"seed {seed}; logs are in {folder}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
