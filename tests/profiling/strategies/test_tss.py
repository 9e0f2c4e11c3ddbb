"""One objective alone: what is not looked at decides nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, STRATEGIES
from skipmap.profiling.select import select
from skipmap.skipset import SkipSet
from tests.profiling.strategies.driving import drive, random_scores, spec_of

NAMES = ["accept_only", "metric_only"]


def cost(skip):
    """Shallow sets cost more; block 1 is the dearest."""
    return 1.0 - 0.1 * len(skip) + 0.05 * (1 in skip)


def answer(strategy, spec, layers, score_of):
    """Everything that is decided: pool, sets, front and points."""
    found = drive(spec, layers, score_of)
    seen = STRATEGIES[strategy].sight.seen
    chosen = select({skip: seen(found.scores[skip]) for skip in found.outcome.admitted}, cost)
    outcome = found.outcome
    return outcome.pool, sorted(found.scores), outcome.admitted, outcome.stopped, outcome.budget, chosen


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(2, 7),
    st.sampled_from([1, 3, 12]),
    st.sampled_from([None, 9, 14]),
)
def test_other_figures_of_what_it_does_not_look_at_change_nothing(strategy, seed, other, layers, pool, bound):
    spec = spec_of(strategy, max_pool=pool, max_evaluations=bound)

    def other_table(skip):
        one, two = random_scores(seed)(skip), random_scores(other)(skip)
        if strategy == "accept_only":
            return Score(one.accept, two.metric)
        return Score(two.accept, one.metric)

    # Dense differs as well, so that the floor of what is not looked at does.
    def shifted(skip):
        score = other_table(skip)
        if skip != DENSE:
            return score
        return Score(score.accept, 0.3) if strategy == "accept_only" else Score(0.7, score.metric)

    assert answer(strategy, spec, layers, random_scores(seed)) == answer(strategy, spec, layers, shifted)


@pytest.mark.parametrize("strategy", NAMES)
def test_of_equal_blocks_those_of_the_lowest_numbers_find_room_in_the_pool(strategy):
    outcome = drive(spec_of(strategy, max_pool=2, max_depth=1), 5, lambda skip: Score(2.0, 0.8)).outcome
    assert (outcome.pool, outcome.budget.pool_cut) == ((0, 1), (2, 3, 4))


def test_one_floor_admits_what_the_other_refuses():
    table = {
        SkipSet(): Score(2.0, 0.8),
        SkipSet((0,)): Score(2.5, 0.1),
        SkipSet((1,)): Score(1.0, 0.9),
        SkipSet((2,)): Score(2.0, 0.8),
    }
    found = {name: drive(spec_of(name, max_depth=1), 3, table.get).outcome for name in ("tss", *NAMES)}
    assert {name: outcome.pool for name, outcome in found.items()} == {
        "tss": (0, 1, 2),
        "accept_only": (0, 2),
        "metric_only": (1, 2),
    }
    assert all(outcome.feasible == (SkipSet((2,)),) for outcome in found.values())
    assert found["tss"].admitted == (SkipSet((2,)),)
    assert found["accept_only"].admitted == (SkipSet((0,)), SkipSet((2,)))
    assert found["metric_only"].admitted == (SkipSet((1,)), SkipSet((2,)))


@pytest.mark.parametrize(
    ("strategy", "low", "words"),
    [("accept_only", Score(1.0, 0.9), "accept length"), ("metric_only", Score(2.5, 0.1), "metric")],
)
def test_end_names_the_one_floor(strategy, low, words):
    stopped = drive(spec_of(strategy), 4, lambda skip: low if skip.blocks else Score(2.0, 0.8)).outcome
    assert stopped.stopped == f"no single block meets the floor of {words}, so the pool is empty"

    def pairs_fail(skip):
        return low if len(skip) == 2 else Score(2.0, 0.8)

    assert drive(spec_of(strategy), 4, pairs_fail).outcome.stopped == (
        "level 2 has no admitted configuration"
    )
