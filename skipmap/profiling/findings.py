"""Findings: everything a job found, built up from stored pieces in the same way wherever the pieces come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from skipmap.profiling.cost import CostModel
from skipmap.profiling.evaluated import Evaluated
from skipmap.profiling.held_out import HeldOutPoint, nothing_measured
from skipmap.profiling.job import Job
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE, Outcome, strategy_of
from skipmap.profiling.select import Selection, select
from skipmap.skipset import SkipSet


@dataclass
class Findings:
    """Everything a finished job found; ``profiling.result`` turns it into the result document."""

    job: Job
    rows: Evaluated
    outcome: Outcome
    baseline: float
    no_signal: bool
    cost: CostModel | None = None
    selection: Selection = field(default_factory=lambda: Selection((), {}))
    selected: SkipSet = DENSE
    held_out_dense: Evaluation | None = None
    held_out: list[HeldOutPoint] = field(default_factory=list)
    points_left_out: list[SkipSet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def dense_alone(self) -> bool:
        """Whether nothing after dense is wanted: it scores no better than a trivial answer."""
        return self.no_signal and not self.job.spec.search.allow_no_signal

    @property
    def admitted(self) -> dict[SkipSet, Score]:
        """What the points are chosen among, with A and M as far as the strategy looks at them."""
        sight = strategy_of(self.job.spec.search.strategy).sight
        return {skip: sight.seen(self.rows.scores[skip]) for skip in self.outcome.admitted}

    def choose(self, cost: CostModel) -> list[SkipSet]:
        """Select operating points by cost; returns those for the held-out check."""
        spec = self.job.spec.search
        self.cost = cost
        self.selection = select(self.admitted, cost.ratio)
        self.selected = self.selection.points[spec.select] or DENSE
        points = self._points(cost)
        points, self.points_left_out = points[: spec.max_held_out_points], points[spec.max_held_out_points :]
        if self.points_left_out:
            listed = ", ".join(map(str, self.points_left_out))
            self.notes.append(
                f"the bound max_held_out_points {spec.max_held_out_points} left {listed} without a held-out check"
            )
        return points

    def note_finalists(self, ratios: Mapping[str, float]) -> None:
        """Keep the points' directly measured cost ratios, by skip set text."""
        assert self.cost is not None
        self.cost = replace(self.cost, finalists=ratios)

    def note_held_out(self, dense: Evaluation, points: list[HeldOutPoint]) -> None:
        """Keep the held-out check."""
        self.held_out_dense, self.held_out = dense, points
        if nothing_measured(dense):
            self.notes.append(
                "on the held-out prompts dense takes no verification step or scores 0: nothing can be confirmed"
            )

    def _points(self, cost: CostModel) -> list[SkipSet]:
        """Selected first, then the other operating points, then the front by cost."""
        named = [s for s in self.selection.points.values() if s is not None]
        front = sorted(self.selection.front, key=cost.ratio)
        return [skip for skip in dict.fromkeys([self.selected, *named, *front]) if skip != DENSE]


def of_search(job: Job, rows: Evaluated, outcome: Outcome, baseline: float, seconds: float) -> Findings:
    """What the search alone found. ``baseline``: metric of a trivial answer; ``seconds``: spent evaluating."""
    no_signal = rows.dense.metric <= baseline
    findings = Findings(job, rows, outcome, baseline, no_signal, timings={"evaluation_seconds": seconds})
    findings.notes.extend(_notes(findings))
    return findings


def _notes(findings: Findings) -> list[str]:
    dense, spec = findings.rows.dense, findings.job.spec.search
    metric = findings.job.subject.metric.name
    notes = []
    if findings.no_signal:
        tail = (
            "; searched all the same, as asked"
            if spec.allow_no_signal
            else "; nothing after dense was evaluated"
        )
        notes.append(
            f"no signal: dense {metric} {dense.metric:.3f} is not above the trivial answer's "
            f"{findings.baseline:.3f}{tail}"
        )
    sight, admitted = strategy_of(spec.strategy).sight, findings.outcome.admitted
    if dense.accepted_drafts == 0:
        left = "the metric and the cost decide" if sight.metric else "the cost decides"
        notes.append(
            "dense never accepted a drafted token (accept length 1.00): every set meets the accept floor, so only "
            f"{left}"
        )
    if dense.idle_prompts:
        notes.append(
            f"{dense.idle_prompts} of {len(dense.prompts)} answers took no verification step (dense)"
        )
    budget = findings.outcome.budget
    if budget.depth_clamped and not findings.no_signal:
        pool, layers = len(findings.outcome.pool), findings.job.subject.target.num_layers
        tail = f"is more than a pool of {pool} blocks allows"
        if budget.max_depth <= pool:
            tail = f"leaves none of the target's {layers} blocks to run"
        notes.append(f"the bound max_depth {budget.max_depth} {tail}")
    if budget.pool_cut:
        cut = ", ".join(map(str, budget.pool_cut))
        notes.append(f"the bound max_pool {spec.max_pool} left blocks {cut} out of the pool")
    for level, count in sorted(budget.not_evaluated.items()):
        notes.append(f"level {level}: {count} configurations were not evaluated ({findings.outcome.stopped})")
    if admitted and not sight.is_whole:
        notes.append(
            f"strategy {spec.strategy} looks at {sight.words} alone: of {len(admitted)} configurations that keep its "
            f"floor, {len(findings.outcome.feasible)} keep both floors"
        )
    notes.extend(findings.outcome.notes)
    return notes
