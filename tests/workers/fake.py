"""A worker and its engine for tests: real Celery, real database, evaluations that take as long as a test wants."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery.concurrency.asynpool import AsynPool

from models.calibration_sets import SetFile
from models.chunks import run_key, skip_key
from models.failpoints import arm
from models.jobs import Facts
from models.parts import Parts
from models.settings import get_settings
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE, floors
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from tests.models.bench import (
    Ranking,
    Table,
    all_good,
    make_evaluation,
    make_facts,
    random_ranking,
    random_table,
)
from workers.boot import run_worker
from workers.engine import Tick
from workers.slot import Place, PlaceLock

POLL_SECONDS = 0.01
MAINTAIN_SECONDS = 0.2


@dataclass
class Plan:
    """How a fake worker behaves.

    ``folder``: where its log and marks (empty files) lie. ``on``: unit key -> what to do when it is evaluated;
    ``slow``: unit key -> seconds that it takes, with forwards all the while; ``failpoints``: name -> what to do.

    Actions at a key or failpoint X: ``kill``, ``stop`` (SIGSTOP), ``hang``, ``raise``, ``oom``; ``hold``: make the mark
    ``held-X`` and wait for ``go-X``; ``crowd:N``: wait until N processes have come here; ``mark:NAME``: make a mark.
    Before another action: ``once:``, only the first time in ``folder``; ``nth:N:``, only the Nth time in its process;
    ``when:NAME:``, only once that mark is there.
    """

    folder: str
    name: str = "fake-0"
    seed: int = 0
    answers: str = "random"
    """``random`` scores around the floors, or ``good`` ones only."""
    layers: int = 5
    held_out_items: int = 5
    seconds_per_unit: float = 0.02
    engine: str = "fake"
    content_key: str = "k" * 64
    lock_seconds: float = 10
    """How long it waits for its place."""
    on: dict[str, str] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    failpoints: dict[str, str] = field(default_factory=dict)
    loses_child_at_start: bool = False

    def __post_init__(self) -> None:
        self._passed: Counter[str] = Counter()

    @property
    def table(self) -> Table:
        return all_good if self.answers == "good" else random_table(self.seed)

    @property
    def ranking(self) -> Ranking:
        return random_ranking(self.seed)

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def arm(self) -> None:
        """Arm the failpoints in this process."""
        for name, action in self.failpoints.items():
            arm(name, lambda name=name, action=action: self.act(action, name))

    def mark(self, name: str) -> bool:
        """Make a mark; False when it was there."""
        try:
            os.close(os.open(self.path / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def wait(self, count: int, pattern: str) -> None:
        while len(list(self.path.glob(pattern))) < count:
            time.sleep(POLL_SECONDS)

    def act(self, action: str, place: str) -> None:
        kind, _, rest = action.partition(":")
        if kind == "once":
            if self.mark(f"once-{place}"):
                self.act(rest, place)
        elif kind == "nth":
            number, _, then = rest.partition(":")
            self._passed[place] += 1
            if self._passed[place] == int(number):
                self.act(then, place)
        elif kind == "when":
            name, _, then = rest.partition(":")
            if (self.path / name).exists():
                self.act(then, place)
        elif kind == "mark":
            self.mark(rest)
        elif kind == "hold":
            self.mark(f"held-{place}")
            self.wait(1, f"go-{place}")
        elif kind == "crowd":
            self.mark(f"crowd-{place}-{os.getpid()}")
            self.wait(int(rest), f"crowd-{place}-*")
        elif kind in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        elif kind == "hang":
            time.sleep(3600)
        elif kind == "raise":
            raise RuntimeError(f"raised at {place}")
        elif kind == "oom":
            raise MemoryError(f"out of memory at {place}")
        else:
            raise ValueError(action)

    def log(self, what: str, **more: Any) -> None:
        line = json.dumps({"what": what, "worker": self.name, "pid": os.getpid(), "at": time.time()} | more)
        with (self.path / "log.jsonl").open("a") as file:
            file.write(line + "\n")


class FakeEngine:
    """Evaluates from a table, slowly, with texts that differ each time."""

    device_class = "cpu"

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.version = plan.engine

    def open(self, job_id: str, spec: JobSpec, uploaded: Callable[[], SetFile] | None, tick: Tick) -> FakeJob:
        return FakeJob(self.plan, job_id, spec, tick)

    def is_broken(self, error: BaseException) -> bool:
        return "device lost" in str(error)


@dataclass
class FakeJob:
    plan: Plan
    job_id: str
    spec: JobSpec
    tick: Tick

    @property
    def facts(self) -> Facts:
        plan = self.plan
        return make_facts(
            num_layers=plan.layers,
            block_types=("full_attention",) * plan.layers,
            engine=plan.engine,
            # A key a job, unless the plan shares one: tests of the queue must not meet in the cache.
            content_key=self.job_id if plan.content_key == "k" * 64 else plan.content_key,
            held_out_items=plan.held_out_items,
        )

    def evaluate(self, skips: Sequence[SkipSet]) -> list[Evaluation]:
        table = self.plan.table
        keys = [skip_key(skip) for skip in skips]
        self._spend(keys)
        noise = random.random()
        return [make_evaluation(skip, table(skip), f"answer {noise}") for skip in skips]

    def rank(self, skips: Sequence[SkipSet], dense: Evaluation) -> dict[SkipSet, float]:
        assert dense.skip == DENSE
        self._spend([f"rank {skip_key(skip)}" for skip in skips])
        return {skip: self.plan.ranking(skip) for skip in skips}

    def cost(self, parts: Parts) -> dict[str, Any]:
        self._spend(["cost"])
        search = self.spec.search
        limits = floors(self.plan.table(DENSE), search.eps, search.tau)
        table = self.plan.table
        feasible = sorted(skip for skip in parts.figures if skip != DENSE and limits.admits(table(skip)))
        return {"cost": {"fixed": random.random()}, "points": [skip.to_list() for skip in feasible[:2]]}

    def held_out(self, points: Sequence[SkipSet], start: int, stop: int) -> dict[str, Any]:
        self._spend([run_key(start, stop)])
        return {"items": list(range(start, stop)), "points": [skip.to_list() for skip in points]}

    def result(self, parts: Parts) -> dict[str, Any]:
        self._spend(["result"])
        return {"document": {"evaluated": sorted(skip_key(skip) for skip in parts.figures)}}

    def _spend(self, keys: list[str]) -> None:
        self.plan.log("begin", keys=keys, job=self.job_id)
        for key in keys:
            if key in self.plan.on:
                self.plan.act(self.plan.on[key], key)
            end = time.monotonic() + self.plan.slow.get(key, self.plan.seconds_per_unit)
            while True:
                self.tick()
                left = end - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, 0.02))
        self.plan.log("end", keys=keys, job=self.job_id)


def run(plan: Plan) -> int:
    """Run the worker of a plan."""
    plan.arm()
    # A parent looks every five seconds for children that have died; tests have no time for that.
    AsynPool.timers = property(lambda pool: {pool.maintain_pool: MAINTAIN_SECONDS})
    if plan.loses_child_at_start:
        AsynPool.did_start_ok = lambda pool: False
    place = Place(plan.name, "cpu")
    lock = PlaceLock(plan.path / "run", plan.name)
    lock.acquire(plan.lock_seconds)
    return run_worker(get_settings(), place, lock, lambda: FakeEngine(plan))
