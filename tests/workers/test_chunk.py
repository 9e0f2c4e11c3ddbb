from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from models.calibration_sets import store_set
from models.chunks import skip_key
from models.control import cancel, pause
from models.errors import TooSlow, Unavailable
from models.ranks import ranks_of
from skipmap.errors import InvalidInput
from skipmap.profiling.records import Evaluation
from skipmap.skipset import SkipSet
from tests.models.bench import Bench, make_facts, make_spec
from tests.workers.fake import FakeEngine, FakeJob, Plan
from workers.chunk import Broken, Workbench
from workers.pulse import Pulse
from workers.slot import PlaceLock


@dataclass
class Trouble(FakeEngine):
    """A fake engine that does something in the middle: ``do`` is called before each evaluation."""

    plan: Plan
    facts: Any = field(default_factory=make_facts)
    do: Any = None
    asked: list[list[str]] = field(default_factory=list)
    uploads: list[Any] = field(default_factory=list)

    @property
    def version(self) -> str:
        return self.facts.engine

    def open(self, job_id: str, spec: Any, uploaded: Any, tick: Any) -> FakeJob:
        self.uploads.append(uploaded)
        return Scripted(self.plan, job_id, spec, tick, self)


@dataclass
class Scripted(FakeJob):
    engine: Trouble

    @property
    def facts(self) -> Any:
        return self.engine.facts

    def evaluate(self, skips: Sequence[SkipSet]) -> list[Evaluation]:
        self.engine.asked.append([skip_key(skip) for skip in skips])
        if self.engine.do is not None:
            self.engine.do()
        return super().evaluate(skips)


@pytest.fixture
def bench(database, settings) -> Bench:
    return Bench(database, settings.model_copy(update={"watch_seconds": 0.01, "heartbeat_seconds": 0.02}))


@pytest.fixture
def engine(bench, tmp_path) -> Trouble:
    return Trouble(Plan(folder=str(tmp_path), answers="good", seconds_per_unit=0.0), bench.facts)


@pytest.fixture
def lock(tmp_path) -> PlaceLock:
    lock = PlaceLock(tmp_path, "cpu-0")
    lock.acquire()
    return lock


@pytest.fixture
def workbench(bench, engine, lock) -> Workbench:
    pulse = Pulse(bench.database, bench.settings, bench.slot(), lock)
    return Workbench(bench.database, bench.settings, engine, pulse)


@contextmanager
def beating(workbench: Workbench) -> Iterator[None]:
    workbench.pulse.start()
    yield
    workbench.pulse.end()


def chunks(bench: Bench) -> list[Any]:
    return bench.sql("SELECT kind, state, attempt, error_count, permanent FROM chunks ORDER BY id")


def test_who_finishes_the_last_chunk_makes_the_next_level(bench, workbench):
    """No reconciler is there to do it."""
    job = bench.submit()
    workbench.work_on(bench.must_claim())
    assert chunks(bench)[0][:2] == ("dense", "succeeded")
    assert bench.sql("SELECT kind, state FROM levels ORDER BY idx") == [
        ("dense", "done"),
        ("single", "running"),
    ]
    while (claimed := bench.claim()) is not None:
        workbench.work_on(claimed)
    assert bench.state(job.id) == "succeeded"


def test_only_groups_that_are_not_stored_are_evaluated(bench, workbench, engine):
    bench.submit()
    claimed = bench.reach("single")
    bench.store_group(claimed, claimed.groups[0])
    bench.lose(claimed.chunk_id)
    workbench.work_on(bench.must_claim())
    assert engine.asked == [list(keys) for keys in claimed.groups[1:]]


def test_blocks_are_ranked_by_their_figures(bench, workbench, engine):
    job = bench.submit(make_spec(strategy="shortgpt", max_depth=3))
    while (claimed := bench.claim()) is not None:
        workbench.work_on(claimed)
    assert bench.state(job.id) == "succeeded"
    singles = [SkipSet((block,)) for block in range(bench.facts.num_layers)]
    assert bench.database.read(ranks_of, job.id) == {skip: engine.plan.ranking(skip) for skip in singles}
    order = sorted(singles, key=lambda skip: (engine.plan.ranking(skip), skip))
    sets = [SkipSet.of(block for skip in order[:size] for block in skip) for size in (1, 2, 3)]
    # What is ranked is not evaluated.
    assert engine.asked == [["dense"], *([skip_key(skip)] for skip in sets)]


def test_dense_comes_from_the_cache_where_it_can(bench, workbench, engine):
    for _ in range(2):
        bench.submit(make_spec(max_depth=1))
        while (claimed := bench.claim()) is not None:
            workbench.work_on(claimed)
    assert engine.asked.count(["dense"]) == 1
    assert len(engine.asked) == len({tuple(keys) for keys in engine.asked})
    assert bench.sql("SELECT count(*) FROM evaluations WHERE cached") == [6]


def test_an_uploaded_set_is_handed_to_the_engine(bench, workbench, engine):
    stored, _ = bench.database.transaction(store_set, b'{"prompt": "w1"}\n', "mine.jsonl", 1, {})
    bench.submit(calibration_set_id=stored.id)
    workbench.work_on(bench.must_claim())
    (read,) = engine.uploads
    uploaded = read()
    assert (uploaded.sha256, uploaded.content) == (stored.sha256, b'{"prompt": "w1"}\n')


@pytest.mark.parametrize("permanent", [True, False], ids=["permanent", "passing"])
def test_an_error_is_noted_and_only_a_passing_one_is_tried_again(bench, workbench, engine, permanent):
    def fail() -> None:
        raise InvalidInput("draft.params", "no good") if permanent else RuntimeError("out of luck")

    engine.do = fail
    bench.submit()
    workbench.work_on(bench.must_claim())
    assert chunks(bench) == [("dense", "pending", 1, 1, permanent)]
    said = "InvalidInput: draft.params: no good" if permanent else "RuntimeError: out of luck"
    assert bench.sql("SELECT outcome, error FROM attempts") == [("error", said)]
    assert (bench.claim() is None) == permanent


def test_another_target_than_the_jobs_is_told_apart(bench, workbench, engine):
    bench.submit()
    bench.reach("single")
    bench.lose(bench.sql("SELECT id FROM chunks WHERE state = 'running'")[0])
    engine.facts = make_facts()
    workbench.work_on(bench.must_claim())
    assert bench.sql("SELECT error FROM attempts WHERE outcome = 'error'")[0].startswith("TargetChanged: ")
    assert engine.asked == []


def test_when_the_device_is_lost_the_process_is_to_end_and_its_claim_with_it(bench, workbench, engine):
    def fail() -> None:
        raise RuntimeError("device lost")

    engine.do = fail
    bench.submit()
    with pytest.raises(Broken, match="device lost"):
        workbench.work_on(bench.must_claim())
    # The next process of this place takes it back, which counts as a crash.
    assert chunks(bench) == [("dense", "running", 1, 0, False)]


@pytest.mark.parametrize(
    ("how", "state", "attempt", "outcome"),
    [
        ("cancel", "cancelled", 1, "cancelled"),
        ("pause", "pending", 0, "released"),
        ("drain", "pending", 0, "released"),
    ],
)
def test_a_chunk_is_left_at_the_next_forward(bench, workbench, engine, lock, how, state, attempt, outcome):
    """The evaluation itself goes on for ever."""

    def act() -> None:
        if how == "drain":
            lock.drain.touch()
        else:
            bench.database.transaction({"cancel": cancel, "pause": pause}[how], job.id)

    engine.do = act
    engine.plan.seconds_per_unit = 3600.0
    job = bench.submit()
    with beating(workbench):
        workbench.work_on(bench.must_claim())
    assert chunks(bench) == [("dense", state, attempt, 0, False)]
    assert bench.sql("SELECT outcome FROM attempts") == [outcome]
    assert bench.sql("SELECT count(*) FROM evaluations") == [0]


def test_a_job_that_is_out_of_time_goes_on_with_what_it_has(bench, workbench, engine):
    bench.submit(make_spec(max_seconds=1e-6, max_depth=1))
    workbench.work_on(bench.must_claim())
    # Dense was all that there was time for; of the single blocks the group at hand was stored.
    while (claimed := bench.claim()) is not None:
        workbench.work_on(claimed)
    assert bench.sql("SELECT state FROM jobs") == ["succeeded"]
    assert bench.sql("SELECT count(*) FROM evaluations") < [6]


def test_a_chunk_that_somebody_else_has_by_now_is_dropped(bench, workbench, engine):
    claims = []

    def lose() -> None:
        engine.do = None
        bench.lose(claims[0].chunk_id)
        claims.append(bench.must_claim(bench.slot("other")))

    engine.do = lose
    bench.submit()
    claims.append(bench.must_claim())
    workbench.work_on(claims[0])
    assert bench.sql("SELECT state, owner FROM chunks") == [("running", "other")]
    assert bench.sql("SELECT count(*) FROM evaluations") == [0]
    assert bench.sql("SELECT outcome FROM attempts") == ["crashed"]


class Away:
    """A database that does not answer the first few times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def transaction(self, work: Any, *args: Any) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise Unavailable("the database does not answer")
        return work(None, *args)


def test_a_statement_that_takes_too_long_fails_its_chunk(bench, workbench, engine, monkeypatch):
    """Waiting for it would never end: it takes as long the next time."""

    def slow(session: Any, key: str, skip: SkipSet) -> None:
        raise TooSlow("canceling statement due to statement timeout")

    monkeypatch.setattr("workers.chunk.look_up", slow)
    bench.submit()
    workbench.work_on(bench.must_claim())
    assert chunks(bench) == [("dense", "pending", 1, 1, False)]


def test_it_outwaits_the_database_unless_it_drains(workbench, engine, lock, monkeypatch):
    monkeypatch.setattr("workers.chunk._AWAY_SECONDS", 0.0)
    patient = Workbench(Away(100), workbench.settings, engine, workbench.pulse)
    assert patient.persist(lambda session, value: value, 7) == 7
    lock.drain.touch()
    with pytest.raises(Unavailable):
        Workbench(Away(1), workbench.settings, engine, workbench.pulse).persist(lambda session: 7)
