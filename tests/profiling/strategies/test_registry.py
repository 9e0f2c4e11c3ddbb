"""What holds for every strategy."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.profiling.search import DENSE, STRATEGIES, check_bounds, next_work
from skipmap.skipset import SkipSet
from skipmap.spec import READ_BY, StrategyName
from tests.profiling.strategies.driving import GOOD, drive, random_ranks, random_scores, shuffled, spec_of

ALL = list(get_args(StrategyName))
RANKED = {"shortgpt", "sleb"}
NARROW = {"max_pool": 4, "beam_width": 2, "draws": 3}


def test_registry_holds_every_strategy_of_the_spec():
    assert sorted(STRATEGIES) == sorted(ALL)
    assert all(strategy.name == name and strategy.summary for name, strategy in STRATEGIES.items())
    assert {field for strategy in STRATEGIES.values() for field in strategy.reads} == set(READ_BY)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(ALL),
    st.integers(0, 10**6),
    st.integers(3, 7),
    st.sampled_from([None, 9, 14]),
    st.integers(1, 5),
)
def test_stored_figures_in_any_order_give_the_same_next_work(strategy, seed, layers, bound, group_size):
    spec = spec_of(strategy, max_depth=4, max_evaluations=bound, group_size=group_size, **NARROW)
    score_of, rank_of = random_scores(seed), random_ranks(seed)
    whole = drive(spec, layers, score_of, rank_of)
    rng = random.Random(seed)
    scores, ranks = {}, {}
    for work in whole.works:
        assert next_work(spec, layers, shuffled(scores, rng), shuffled(ranks, rng)) == work
        # Any of the groups may have been finished, by anyone and in any order.
        finished = rng.sample(work.groups, rng.randrange(len(work.groups)))
        kind, figure_of = (ranks, rank_of) if work.kind == "rank" else (scores, score_of)
        partly = kind | {skip: figure_of(skip) for group in finished for skip in group}
        given = (scores, partly) if work.kind == "rank" else (partly, ranks)
        resumed = next_work(spec, layers, *(shuffled(figures, rng) for figures in given))
        assert (resumed.kind, resumed.level, resumed.groups) == (work.kind, work.level, work.groups)
        assert resumed.pending == tuple(group for group in work.groups if group not in finished)
        kind |= {skip: figure_of(skip) for group in work.groups for skip in group}
    assert next_work(spec, layers, shuffled(scores, rng), shuffled(ranks, rng)) == whole.outcome


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(ALL),
    st.integers(0, 10**6),
    st.integers(3, 7),
    st.integers(1, 5),
    st.sampled_from([None, 9, 11, 17]),
)
def test_levels_are_what_they_say_and_bounds_hold(strategy, seed, layers, depth, bound):
    spec = spec_of(strategy, max_depth=depth, max_evaluations=bound, group_size=3, **NARROW)
    found = drive(spec, layers, random_scores(seed), random_ranks(seed))
    budget, made = found.outcome.budget, STRATEGIES[strategy]
    asked = [skip for work in found.works if work.kind != "rank" for group in work.groups for skip in group]
    assert Counter(asked).most_common(1)[0][1] == 1
    assert budget.evaluated == len(found.scores) == len(asked) <= (bound or len(asked))
    assert budget.ranked == len(found.ranks)
    assert bool(found.ranks) == (strategy in RANKED)
    for work in found.works:
        flat = [skip for group in work.groups for skip in group]
        assert flat == sorted(flat)
        assert all(len(group) <= 3 for group in work.groups)
        assert {len(skip) for skip in flat} - {work.level} <= ({0} if work.kind == "rank" else set())
        assert work.kind in ("rank", {0: "dense", 1: "single"}.get(work.level, "level"))
    sizes, pool = found.sizes(), len(found.outcome.pool)
    for level in range(1, min(depth, layers - 1) + 1):
        most = made.level_size(spec, layers, pool, level)
        left_out = budget.not_evaluated.get(level, 0)
        assert sizes.get(level, 0) + left_out <= most
        # What was begun is accounted for to the last set.
        if level in sizes and left_out and strategy != "beam":
            assert sizes[level] + left_out == most
        ranked = sum(work.size for work in found.works if (work.kind, work.level) == ("rank", level))
        assert ranked in (0, made.rank_size(spec, layers, level))
    if budget.exhaustive:
        assert {s for s in found.scores if len(s) > 1} == {
            SkipSet(blocks)
            for size in range(2, budget.depth_reached + 1)
            for blocks in combinations(found.outcome.pool, size)
        }
    assert bool(found.outcome.notes) == (not budget.covered)


@pytest.mark.parametrize("strategy", ALL)
def test_feasible_sets_keep_both_floors_and_admitted_ones_those_in_sight(strategy):
    spec = spec_of(strategy, max_depth=3)
    for seed in range(20):
        found = drive(spec, 6, random_scores(seed), random_ranks(seed))
        kept = {
            skip: (score.accept >= 1.9, score.metric >= 0.76)
            for skip, score in found.scores.items()
            if skip != DENSE
        }
        sight = STRATEGIES[strategy].sight
        assert list(found.outcome.feasible) == sorted(skip for skip, both in kept.items() if all(both))
        assert list(found.outcome.admitted) == sorted(
            skip
            for skip, (accept, metric) in kept.items()
            if (accept or not sight.accept) and (metric or not sight.metric)
        )


@pytest.mark.parametrize("strategy", ALL)
def test_no_signal_stops_after_dense(strategy):
    found = drive(spec_of(strategy), 5, lambda skip: GOOD, no_signal=True)
    made, budget = STRATEGIES[strategy], found.outcome.budget
    assert list(found.scores) == [DENSE]
    assert budget.not_evaluated == {1: made.level_size(spec_of(strategy), 5, 5, 1)} or strategy == "greedy"
    assert not budget.exhaustive
    assert "no signal" in found.outcome.stopped


@pytest.mark.parametrize("strategy", ALL)
def test_max_seconds_counts_ranking_too_and_is_told(strategy):
    # A second a group: dense, then half of what comes first.
    spec = spec_of(strategy, max_depth=2, group_size=2, max_seconds=2)
    found = drive(spec, 6, lambda skip: GOOD, lambda skip: 0.5, seconds_a_group=1.0)
    budget, outcome = found.outcome.budget, found.outcome
    assert "search.max_seconds was reached" in outcome.stopped
    assert set(budget.not_evaluated) == {1, 2}
    assert not budget.exhaustive
    if strategy in RANKED:
        assert (len(found.scores), budget.ranked) == (1, 2)
    else:
        assert (len(found.scores), budget.ranked) == (3, 0)


@pytest.mark.parametrize("strategy", ALL)
def test_bounds_that_end_before_the_first_level_are_refused(strategy):
    spec = spec_of(strategy)
    made = STRATEGIES[strategy]
    least = 1 + made.level_size(spec, 12, made.pool_size(spec, 12), 1)
    check_bounds(spec_of(strategy, max_evaluations=least), 12)
    with pytest.raises(InvalidInput, match=rf"^search.max_evaluations: .* give at least {least}$"):
        check_bounds(spec_of(strategy, max_evaluations=least - 1), 12)


def test_beam_that_nobody_could_list_is_refused():
    check_bounds(spec_of("beam", max_depth=8, max_pool=40, beam_width=8), 40)
    with pytest.raises(InvalidInput, match=r"^search.max_depth: level 5 of a pool of 40 blocks has 147,456 "):
        check_bounds(spec_of("beam", max_depth=8, max_pool=40, beam_width=4096), 40)
