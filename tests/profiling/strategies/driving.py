"""Drives a search as the runner does, over made-up figures."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, Outcome, next_work
from skipmap.spec import READ_BY, SearchSpec

GOOD = Score(2.0, 0.8)


@dataclass
class Search:
    """A search so far, and its end."""

    scores: dict = field(default_factory=dict)
    ranks: dict = field(default_factory=dict)
    works: list = field(default_factory=list)
    outcome: Outcome | None = None

    def sizes(self):
        """Configurations of each level."""
        found: dict[int, int] = {}
        for skip in self.scores:
            found[len(skip)] = found.get(len(skip), 0) + 1
        return found


def drive(spec, layers, score_of, rank_of=None, seconds_a_group=0.0, **options):
    """Search to the end; ``score_of`` and ``rank_of`` give the figures of a skip set."""
    found, seconds = Search(), 0.0
    while True:
        step = next_work(spec, layers, found.scores, found.ranks, seconds_spent=seconds, **options)
        if isinstance(step, Outcome):
            found.outcome = step
            return found
        found.works.append(step)
        for group in step.pending:
            if step.kind == "rank":
                found.ranks |= {skip: rank_of(skip) for skip in group}
            else:
                found.scores |= {skip: score_of(skip) for skip in group}
            seconds += seconds_a_group
            if spec.max_seconds is not None and seconds >= spec.max_seconds:
                break


def random_scores(seed, metric_seed=None):
    """A few values only, some exactly on the floors, so that ties and edges come up; M from a seed of its own."""

    def score_of(skip):
        accept = random.Random(f"A{seed}{skip}").choice([1.0, 1.9, 2.0, 2.1])
        metric = random.Random(f"M{seed if metric_seed is None else metric_seed}{skip}").choice(
            [0.1, 0.76, 0.8, 0.85]
        )
        return GOOD if skip == DENSE else Score(accept, metric)

    return score_of


def random_ranks(seed):
    """Ranking figures with ties."""
    return lambda skip: random.Random(f"R{seed}{skip}").choice([0.1, 0.2, 0.3, 0.4])


def spec_of(strategy, **fields):
    """A spec with those of the fields that the strategy reads."""
    kept = {name: value for name, value in fields.items() if strategy in READ_BY.get(name, (strategy,))}
    return SearchSpec(strategy=strategy, **kept)


def shuffled(figures, rng):
    """The same figures in another order."""
    rows = list(figures.items())
    rng.shuffle(rows)
    return dict(rows)
