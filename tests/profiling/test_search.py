from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, Floors, Outcome, check_bounds, floors, next_work
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec

GOOD = Score(2.0, 0.8)
SLOW = Score(1.0, 0.8)
WRONG = Score(2.0, 0.1)
BAD = Score(1.0, 0.1)


def table_of(given, rest=BAD):
    """Scores by skip set; dense is GOOD, what is not listed is ``rest``."""
    listed = {SkipSet.of(blocks): score for blocks, score in given.items()}
    return lambda skip: listed.get(skip, GOOD if skip == DENSE else rest)


def search(spec, layers, table, seconds_a_group=0.0, **options):
    """Drive the search as the runner does; returns the outcome, the scores and the works in order."""
    scores, works, seconds = {}, [], 0.0
    while True:
        step = next_work(spec, layers, scores, seconds_spent=seconds, **options)
        if isinstance(step, Outcome):
            return step, scores, works
        works.append(step)
        for group in step.pending:
            scores |= {skip: table(skip) for skip in group}
            seconds += seconds_a_group
            if spec.max_seconds is not None and seconds >= spec.max_seconds:
                break


def test_pool_takes_either_floor_and_feasible_takes_both():
    table = table_of({(0,): GOOD, (1,): SLOW, (2,): WRONG, (3,): BAD})
    outcome, _, _ = search(SearchSpec(max_depth=1), 4, table)
    assert outcome.pool == (0, 1, 2)
    assert outcome.feasible == (SkipSet((0,)),)


def test_infeasible_pair_does_not_rule_out_its_supersets():
    singles = {(b,): GOOD for b in range(3)}
    table = table_of(singles | {(0, 1): BAD, (0, 2): BAD, (1, 2): GOOD, (0, 1, 2): GOOD})
    outcome, scores, _ = search(SearchSpec(max_depth=3), 4, table)
    assert SkipSet((0, 1, 2)) in outcome.feasible
    assert {s for s in scores if len(s) == 2} == {SkipSet(pair) for pair in combinations(range(3), 2)}


def test_all_subsets_of_the_pool_and_no_others():
    table = table_of({(b,): GOOD for b in (0, 2, 3, 5)}, rest=BAD)
    outcome, scores, _ = search(SearchSpec(max_depth=2), 6, table)
    assert {s for s in scores if len(s) == 2} == {SkipSet(p) for p in combinations((0, 2, 3, 5), 2)}
    assert outcome.stopped == "level 2 has no feasible configuration"
    assert outcome.budget.exhaustive


def test_stops_at_the_first_empty_level_after_the_singles():
    table = table_of({(b,): WRONG for b in range(4)}, rest=WRONG)
    outcome, scores, _ = search(SearchSpec(max_depth=4), 5, table)
    assert outcome.feasible == ()
    # No single is feasible, yet pairs are looked at: only a level from 2 on ends the search.
    assert outcome.budget.depth_reached == 2
    assert max(map(len, scores)) == 2


def test_depth_is_clamped_to_the_pool_and_says_so():
    table = table_of({(0,): GOOD, (1,): GOOD, (0, 1): GOOD})
    outcome, scores, _ = search(SearchSpec(max_depth=5), 8, table)
    assert outcome.budget.depth_clamped
    assert outcome.budget.depth_reached == max(map(len, scores)) == 2
    assert outcome.stopped == "all levels up to 2 were evaluated"
    assert not search(SearchSpec(max_depth=2), 8, table)[0].budget.depth_clamped


def test_one_block_always_runs():
    outcome, scores, _ = search(SearchSpec(max_depth=3), 3, lambda skip: GOOD)
    assert max(map(len, scores)) == 2
    assert outcome.budget.depth_clamped


def test_empty_pool_ends_after_the_singles():
    outcome, scores, _ = search(SearchSpec(), 3, table_of({}))
    assert (outcome.pool, outcome.feasible, outcome.budget.depth_reached) == ((), (), 1)
    assert len(scores) == 4
    assert outcome.stopped == "no single block meets either floor, so the pool is empty"


# A front of five with block 5 behind it; crowding from the gaps: 0 and 4 infinite, 3 > 2 > 1.
CROWDED = {
    0: Score(2.0, 0.50),
    1: Score(1.9, 0.60),
    2: Score(1.8, 0.62),
    3: Score(1.2, 0.95),
    4: Score(1.1, 1.00),
    5: Score(1.0, 0.50),
}


@pytest.mark.parametrize(
    ("max_pool", "pool", "cut"),
    [
        (6, (0, 1, 2, 3, 4, 5), ()),
        (5, (0, 1, 2, 3, 4), (5,)),
        (4, (0, 2, 3, 4), (1, 5)),
        (3, (0, 3, 4), (1, 2, 5)),
        (2, (0, 4), (1, 2, 3, 5)),
    ],
)
def test_max_pool_keeps_by_rank_then_crowding(max_pool, pool, cut):
    table = table_of({(b,): s for b, s in CROWDED.items()} | {(): Score(2.0, 1.0)})
    spec = SearchSpec(max_depth=1, max_pool=max_pool, eps=0.5, tau=0.5)
    outcome, _, _ = search(spec, 6, table)
    budget = outcome.budget
    assert (outcome.pool, budget.pool_cut, budget.pool_found) == (pool, cut, 6)
    assert budget.exhaustive == (not cut)


def test_max_pool_keeps_the_lower_index_of_equals():
    # Evenly spaced on a front: 1, 2 and 3 are equally crowded.
    table = table_of({(b,): Score(5.0 - b, 1.0 + b) for b in range(5)} | {(): Score(1.0, 1.0)})
    outcome, _, _ = search(SearchSpec(max_depth=1, max_pool=3), 5, table)
    assert outcome.pool == (0, 1, 4)


# Ranks among the singles: block 2 is 0, block 0 is 1, block 1 is 2, block 3 is 3.
CHAIN = {
    (): Score(3.0, 0.9),
    (2,): Score(3.0, 0.9),
    (0,): Score(2.9, 0.89),
    (1,): Score(2.8, 0.88),
    (3,): Score(2.7, 0.87),
}


def test_max_evaluations_cuts_by_sum_of_ranks_then_lexicographically():
    spec = SearchSpec(max_depth=3, eps=0.5, tau=0.5, max_evaluations=8)
    outcome, scores, works = search(spec, 4, table_of(CHAIN, rest=GOOD))
    # Sums: {0,2} 1, {1,2} 2, {0,1} and {2,3} 3, {0,3} 4, {1,3} 5.
    assert works[-1].groups == ((SkipSet((0, 1)), SkipSet((0, 2)), SkipSet((1, 2))),)
    assert outcome.budget.not_evaluated == {2: 3, 3: 4}
    assert outcome.stopped == "search.max_evaluations was reached at level 2"
    assert len(scores) == outcome.budget.evaluated == 8
    assert not outcome.budget.exhaustive


def test_budget_used_up_by_a_whole_level_counts_the_next_as_left_out():
    spec = SearchSpec(max_depth=3, eps=0.5, tau=0.5, max_evaluations=11)
    outcome, _, _ = search(spec, 4, table_of(CHAIN, rest=GOOD))
    assert outcome.budget.not_evaluated == {3: 4}
    assert outcome.budget.depth_reached == 2


def test_level_without_feasible_sets_is_exhaustive_even_with_the_budget_used_up():
    spec = SearchSpec(max_depth=3, eps=0.5, tau=0.5, max_evaluations=11)
    outcome, _, _ = search(spec, 4, table_of(CHAIN, rest=Score(0.1, 0.1)))
    assert outcome.stopped == "level 2 has no feasible configuration"
    assert outcome.budget.exhaustive


def test_deeper_levels_count_every_subset_of_the_pool():
    spec = SearchSpec(max_depth=5, max_evaluations=9)
    outcome, _, _ = search(spec, 7, lambda skip: GOOD)
    assert outcome.budget.not_evaluated == {2: comb(7, 2) - 1, 3: 35, 4: 35, 5: 21}


def test_max_evaluations_must_reach_the_singles():
    with pytest.raises(
        InvalidInput,
        match=r"^search.max_evaluations: 4 is less than dense and the first 4 sets of one block; give at least 5$",
    ):
        check_bounds(SearchSpec(max_evaluations=4), 4)
    check_bounds(SearchSpec(max_evaluations=5), 4)
    check_bounds(SearchSpec(), 4)


def test_levels_that_nobody_could_evaluate_are_refused():
    check_bounds(SearchSpec(max_depth=8, max_pool=19), 19)
    with pytest.raises(InvalidInput, match=r"^search.max_depth: level 8 of a pool of 20 blocks has 125,970 "):
        check_bounds(SearchSpec(max_depth=8, max_pool=20), 20)


def test_max_seconds_ends_a_level_between_groups():
    spec = SearchSpec(max_depth=3, group_size=2, max_seconds=5)
    # One second a group: dense, two of singles, two of the three of level 2.
    outcome, scores, _ = search(spec, 4, lambda skip: GOOD, seconds_a_group=1.0)
    assert sum(len(s) == 2 for s in scores) == 4
    assert outcome.budget.not_evaluated == {2: 2, 3: 4}
    assert outcome.budget.depth_reached == 2
    assert outcome.stopped == "search.max_seconds was reached at level 2"


@pytest.mark.parametrize(
    ("max_seconds", "reached", "missing", "pool"),
    [(1, 0, {1: 4}, ()), (2, 1, {1: 2, 2: 1}, (0, 1))],
)
def test_max_seconds_inside_the_singles(max_seconds, reached, missing, pool):
    spec = SearchSpec(max_depth=3, group_size=2, max_seconds=max_seconds)
    outcome, _, _ = search(spec, 4, lambda skip: GOOD, seconds_a_group=1.0)
    assert outcome.pool == pool
    assert outcome.budget.not_evaluated == missing
    assert outcome.budget.depth_reached == reached
    assert outcome.stopped == "search.max_seconds was reached at level 1"


def test_no_signal_stops_after_dense_and_counts_what_was_left():
    spec = SearchSpec()
    outcome, scores, _ = search(spec, 4, lambda skip: GOOD, no_signal=True)
    assert list(scores) == [DENSE]
    assert (outcome.pool, outcome.feasible) == ((), ())
    assert "no signal" in outcome.stopped
    assert outcome.budget.depth_reached == 0
    assert outcome.budget.not_evaluated == {1: 4}
    assert not outcome.budget.exhaustive
    forced, scores, _ = search(
        spec.model_copy(update={"allow_no_signal": True}), 4, lambda skip: GOOD, no_signal=True
    )
    assert len(scores) > 1
    assert forced.feasible


@given(st.integers(1, 10_000), st.sampled_from(["0.05", "0.1", "0.3"]))
def test_floor_met_exactly_is_met(hundredths, share):
    dense = Score(hundredths / 100, 0.5)
    limits = floors(dense, float(share), 0.0)
    exact = float(Fraction(hundredths, 100) * (1 - Fraction(share)))
    assert limits.admits(Score(exact, 0.5))
    assert not limits.admits(Score(exact - 1e-9, 0.5))
    assert not limits.admits(Score(exact, 0.5 - 1e-9))


def test_each_floor_stands_alone():
    limits = Floors(accept=1.0, metric=0.5)
    assert limits.admits_accept(SLOW)
    assert limits.admits_metric(SLOW)
    assert not limits.admits_metric(WRONG)
    assert not limits.admits_accept(Score(0.9, 1.0))


def test_groups_are_lexicographic_runs():
    spec = SearchSpec(max_depth=2, group_size=4)
    _, _, works = search(spec, 4, lambda skip: GOOD)
    assert [(w.kind, w.level, [len(g) for g in w.groups]) for w in works] == [
        ("dense", 0, [1]),
        ("single", 1, [4]),
        ("level", 2, [4, 2]),
    ]
    flat = [skip for group in works[2].groups for skip in group]
    assert flat == sorted(flat) == [SkipSet(pair) for pair in combinations(range(4), 2)]
    assert works[2].size == 6


def test_group_that_lacks_one_configuration_is_done_again_whole():
    spec = SearchSpec(group_size=2)
    scores = {DENSE: GOOD} | {SkipSet((block,)): GOOD for block in (0, 2, 3)}
    work = next_work(spec, 4, scores)
    assert work.pending == ((SkipSet((0,)), SkipSet((1,))),)


def random_table(seed):
    """A few values only, some of them exactly on the floors, so that ties and edges come up."""

    def table(skip):
        rng = random.Random(f"{seed}{skip}")
        return GOOD if skip == DENSE else Score(rng.choice([1.0, 1.9, 2.0]), rng.choice([0.1, 0.76, 0.8]))

    return table


def papers_method(layers, table, eps, tau, depth):
    """The method as the paper tells it, without budgets: (pool, evaluated, feasible)."""
    floor_a, floor_m = (1 - eps) * table(DENSE).accept, (1 - tau) * table(DENSE).metric

    def ok(blocks):
        score = table(SkipSet(blocks))
        return score.accept >= floor_a - 1e-9, score.metric >= floor_m - 1e-9

    singles = [(b,) for b in range(layers)]
    pool = [b for b in range(layers) if any(ok((b,)))]
    evaluated = [(), *singles]
    feasible = [s for s in singles if all(ok(s))]
    for k in range(2, depth + 1):
        level = [c for c in combinations(pool, k) if len(c) < layers]
        found = [c for c in level if all(ok(c))]
        evaluated += level
        feasible += found
        if not found:
            break
    return pool, evaluated, feasible


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 4))
def test_without_budgets_it_is_the_papers_method(seed, layers, depth):
    table = random_table(seed)
    spec = SearchSpec(max_depth=depth, max_pool=512, group_size=3)
    outcome, scores, _ = search(spec, layers, table)
    pool, evaluated, feasible = papers_method(layers, table, 0.05, 0.05, depth)
    assert list(outcome.pool) == pool
    assert sorted(scores) == sorted(map(SkipSet, evaluated))
    assert sorted(outcome.feasible) == sorted(map(SkipSet, feasible))
    assert outcome.budget.exhaustive


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 7), st.sampled_from([None, 9, 14]), st.integers(1, 5))
def test_stored_rows_in_any_order_give_the_same_next_work(seed, layers, max_evaluations, group_size):
    table = random_table(seed)
    spec = SearchSpec(max_pool=4, max_evaluations=max_evaluations, group_size=group_size)
    outcome, scores, works = search(spec, layers, table)
    rng = random.Random(seed)
    before = {}
    for work in works:
        assert next_work(spec, layers, _shuffled(before, rng)) == work
        # Any of the groups may have been finished, by anyone and in any order.
        finished = rng.sample(work.groups, rng.randrange(len(work.groups)))
        partly = before | {skip: table(skip) for group in finished for skip in group}
        resumed = next_work(spec, layers, _shuffled(partly, rng))
        assert resumed.groups == work.groups
        assert resumed.pending == tuple(group for group in work.groups if group not in finished)
        before |= {skip: table(skip) for group in work.groups for skip in group}
    assert next_work(spec, layers, _shuffled(scores, rng)) == outcome


def _shuffled(scores, rng):
    rows = list(scores.items())
    rng.shuffle(rows)
    return dict(rows)
