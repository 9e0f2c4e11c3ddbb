"""Searches of several strategies over the same evaluations."""

from __future__ import annotations

import time

from skipmap.profiling.cost import CostModel
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.job import Job
from skipmap.profiling.pareto import Score
from skipmap.profiling.rank import rank_group, rank_texts
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE, STRATEGIES, Group, Outcome, Work, check_bounds, next_work
from skipmap.profiling.select import select
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec


class Figures:
    """Evaluations and ranking figures of one domain, taken once whoever asks, with each one's share of the seconds."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows: dict[SkipSet, Evaluation] = {}
        self.ranks: dict[tuple[str, SkipSet], float] = {}
        self.row_seconds: dict[SkipSet, float] = {}
        self.rank_seconds: dict[tuple[str, SkipSet], float] = {}

    def evaluate(self, group: Group) -> None:
        """Evaluate what nobody has asked for yet."""
        missing = [skip for skip in group if skip not in self.rows]
        if not missing:
            return
        began = time.perf_counter()
        for row in evaluate(
            self.job.subject, missing, self.job.data.calibration, self.job.spec.search.batch_tokens
        ):
            self.rows[row.skip] = row
        self.row_seconds |= dict.fromkeys(missing, (time.perf_counter() - began) / len(missing))

    def rank(self, strategy: str, group: Group) -> None:
        """Take the ranking figures of a group."""
        job = self.job
        began = time.perf_counter()
        texts = rank_texts(job.subject, job.data.calibration, self.rows[DENSE])
        for found in rank_group(job.subject, strategy, group, texts, job.spec.search.batch_tokens):
            self.ranks[strategy, found.skip] = found.value
        share = (time.perf_counter() - began) / len(group)
        self.rank_seconds |= {(strategy, skip): share for skip in group}


class Run:
    """One strategy's search over the shared figures."""

    def __init__(self, figures: Figures, search: SearchSpec) -> None:
        self.search, self._figures = search, figures
        self.scores: dict[SkipSet, Score] = {}
        self.ranks: dict[SkipSet, float] = {}
        self.outcome = self._go_on()

    def _go_on(self) -> Outcome:
        layers = self._figures.job.subject.target.num_layers
        check_bounds(self.search, layers)
        while True:
            step = next_work(self.search, layers, self.scores, self.ranks)
            if isinstance(step, Outcome):
                return step
            for group in step.pending:
                self._take(step, group)

    def _take(self, step: Work, group: Group) -> None:
        name, figures = self.search.strategy, self._figures
        if step.kind == "rank":
            figures.rank(name, group)
            self.ranks |= {skip: figures.ranks[name, skip] for skip in group}
            return
        figures.evaluate(group)
        self.scores |= {
            skip: Score(figures.rows[skip].accept_length, figures.rows[skip].metric) for skip in group
        }

    @property
    def seconds(self) -> float:
        """What its evaluations and ranking figures took."""
        figures = self._figures
        ranking = sum(figures.rank_seconds[self.search.strategy, skip] for skip in self.ranks)
        return ranking + sum(figures.row_seconds[skip] for skip in self.scores)

    def selected(self, cost: CostModel) -> SkipSet:
        """The set that a job with this strategy selects."""
        seen = STRATEGIES[self.search.strategy].sight.seen
        admitted = {skip: seen(self.scores[skip]) for skip in self.outcome.admitted}
        return select(admitted, cost.ratio).points[self.search.select] or DENSE
