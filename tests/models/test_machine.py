"""Workers, users and the reconciler in any order: the rules hold after every step, and in the end every job ends."""

from __future__ import annotations

import itertools
from contextlib import suppress

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from models.advance import try_advance
from models.chunks import skip_of
from models.control import cancel, pause, resume, retry
from models.crash import reclaim
from models.errors import Conflict, LostLease, Unfinished
from models.finish import finish
from models.invariants import broken_levels, broken_rules
from models.jobs import ENDED
from models.lease import fail, flush, heartbeat, pin_target, release, stop, store_ranks
from models.levels import EVALUATED_KINDS
from models.sweep import sweep
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE
from tests.models.bench import LONG_AGO, Bench, make_evaluation, make_spec, random_table
from tests.postgres import empty

WORKERS = st.integers(0, 2)
JOBS = st.integers(0, 1)
CLAIMS = st.integers(0, 3)


class Service(RuleBasedStateMachine):
    """Two jobs, three workers; claims are kept when they are lost, so that stale ones are used, too.

    One job searches by TSS; the other one as ``strategy`` says, and may rank blocks.
    """

    def __init__(self, database, service_settings):
        super().__init__()
        self.bench = Bench(database, service_settings)
        self.bench.table = random_table(7)
        self.claims = []
        self.stored = {}
        # Evaluations are noisy: no two of one configuration agree, so that a second value cannot hide.
        self.noise = itertools.count()

    @initialize(split=st.sampled_from([1.0, 60.0]), strategy=st.sampled_from(["tss", "sleb", "greedy"]))
    def submit(self, split, strategy):
        self.bench.seconds_per_group = split
        specs = [make_spec(max_pool=3), make_spec(strategy=strategy)]
        self.jobs = [self.bench.submit(spec).id for spec in specs]
        self.slots = [self.bench.slot(f"w{n}") for n in range(3)]

    @rule()
    def claim(self):
        """All idle workers take a chunk."""
        taken = [self.bench.claim(slot) for slot in self.slots]
        self.claims = [*(claimed for claimed in taken if claimed is not None), *self.claims][:4]

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def store_a_group(self, which):
        claimed = self.kept(which)
        with suppress(LostLease, Unfinished):
            self.act(pin_target, claimed, self.bench.facts)
            for keys in claimed.pending[:2]:
                self.store(claimed, keys)

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def see_through(self, which):
        claimed = self.kept(which)
        with suppress(LostLease, Unfinished):
            self.act(pin_target, claimed, self.bench.facts)
            for keys in claimed.pending:
                self.store(claimed, keys)
            self.act(finish, claimed)
            try_advance(self.bench.database, claimed.level_id)

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def finish_and_die(self, which):
        claimed = self.kept(which)
        with suppress(LostLease, Unfinished):
            self.act(finish, claimed)

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def beat(self, which):
        claimed = self.kept(which)
        with suppress(LostLease, Unfinished):
            found = self.act(heartbeat, self.bench.settings, claimed)
            if found.stop is not None:
                self.act(stop, claimed, found.stop)

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def give_back(self, which):
        claimed = self.kept(which)
        with suppress(LostLease, Unfinished):
            self.act(release, claimed)

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def raise_error(self, which):
        claimed = self.kept(which)
        with suppress(LostLease, Unfinished):
            self.act(fail, self.bench.settings, claimed, "boom")

    @precondition(lambda self: self.claims)
    @rule(which=CLAIMS)
    def fall_silent(self, which):
        self.bench.expire(self.kept(which).chunk_id)

    @rule(worker=WORKERS)
    def restart(self, worker):
        self.act(reclaim, self.bench.settings, self.slots[worker].owner)

    @rule(job=JOBS, change=st.sampled_from([cancel, pause, pause, resume, resume, retry, retry]))
    def control(self, job, change):
        with suppress(Conflict):
            self.act(change, self.jobs[job])

    @rule()
    def sweep(self):
        self.bench.sql("UPDATE chunks SET not_before = NULL WHERE not_before IS NOT NULL")
        hasty = self.bench.without_grace.model_copy(update={"cancel_grace_seconds": 0.0})
        sweep(self.bench.database, hasty, LONG_AGO)

    @invariant()
    def rules_hold(self):
        assert self.act(broken_rules) == []

    @invariant()
    def stored_values_stay(self):
        look = "SELECT '{0}', job_id, skip_key, {1} FROM {0}"
        both = [look.format(*columns) for columns in (("evaluations", "metric"), ("ranks", "value"))]
        now = {tuple(unit): value for *unit, value in self.bench.sql(" UNION ALL ".join(both))}
        assert now | self.stored == now
        self.stored = now

    def teardown(self):
        try:
            if hasattr(self, "jobs"):
                self.end()
        finally:
            empty(self.bench.database)

    def end(self):
        """Resumed and worked off, every job ends, and has what the search asks for."""
        for _ in range(100):
            states = [self.bench.state(job) for job in self.jobs]
            if all(state in ENDED for state in states):
                break
            for job in self.jobs:
                with suppress(Conflict):
                    self.act(resume, job)
            for slot in self.slots:
                self.act(reclaim, self.bench.settings, slot.owner)
            self.sweep()
            slot = self.bench.slot()
            while (claimed := self.bench.claim(slot)) is not None:
                self.act(pin_target, claimed, self.bench.facts)
                for keys in claimed.pending:
                    self.store(claimed, keys)
                self.act(finish, claimed)
                try_advance(self.bench.database, claimed.level_id)
        assert all(self.bench.state(job) in ENDED for job in self.jobs)
        self.rules_hold()
        self.stored_values_stay()
        assert [line for job in self.jobs for line in self.act(broken_levels, job)] == []

    def act(self, work, *args):
        return self.bench.database.transaction(work, *args)

    def store(self, claimed, keys):
        if claimed.kind == "rank":
            values = {s: self.bench.ranking(s) + next(self.noise) * 1e-9 for s in map(skip_of, keys)}
            self.act(store_ranks, self.bench.settings, claimed, values, self.bench.seconds_per_group)
            return
        if claimed.kind not in EVALUATED_KINDS:
            self.bench.store_group(claimed, keys)
            return
        rows = []
        for skip in map(skip_of, keys):
            score = self.bench.table(skip)
            metric = score.metric if skip == DENSE else score.metric + next(self.noise) * 1e-9
            rows.append(make_evaluation(skip, Score(score.accept, metric)))
        self.act(flush, self.bench.settings, claimed, rows, self.bench.seconds_per_group)

    def kept(self, which):
        return self.claims[which % len(self.claims)]


@pytest.mark.parametrize(
    ("examples", "steps"),
    [pytest.param(10, 40, id="few"), pytest.param(150, 60, id="many", marks=pytest.mark.slow)],
)
def test_any_order_of_events_keeps_the_rules(database, settings, examples, steps):
    run_state_machine_as_test(
        lambda: Service(database, settings),
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=examples < 10,
            suppress_health_check=list(HealthCheck),
        ),
    )
