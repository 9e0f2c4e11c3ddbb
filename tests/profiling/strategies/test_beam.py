from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import check_bounds
from skipmap.skipset import SkipSet
from tests.profiling.strategies.driving import GOOD, drive, random_scores, spec_of


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 5), st.sampled_from([None, 9, 14, 30]))
def test_beam_as_wide_as_any_level_is_tss(seed, layers, depth, bound):
    # Every set of k pool blocks has a parent among all sets of k - 1, so nothing is missed.
    fields = {"max_depth": depth, "max_pool": 5, "max_evaluations": bound, "group_size": 3}
    wide = drive(spec_of("beam", beam_width=comb(5, 2), **fields), layers, random_scores(seed))
    tss = drive(spec_of("tss", **fields), layers, random_scores(seed))
    assert wide.works == tss.works
    assert wide.scores == tss.scores
    one, other = wide.outcome, tss.outcome
    assert (one.pool, one.feasible, one.admitted, one.stopped) == (
        other.pool,
        other.feasible,
        other.admitted,
        other.stopped,
    )
    if bound is None:
        assert one.budget == other.budget
        assert not one.notes


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 6))
def test_each_level_grows_from_the_best_of_the_last(seed, layers, width):
    found = drive(spec_of("beam", beam_width=width, max_depth=4, max_pool=6), layers, random_scores(seed))
    scores, pool = found.scores, found.outcome.pool
    sets = {k: [s for s in scores if len(s) == k and set(s) <= set(pool)] for k in range(1, 5)}
    levels = found.outcome.found["levels"]
    for level in levels[:-1]:
        number, kept = level["level"], [SkipSet.of(blocks) for blocks in level["kept"]]
        assert len(kept) == min(width, len(sets[number]))
        assert set(sets[number + 1]) == {
            SkipSet.of((*parent, block)) for parent in kept for block in pool if block not in parent
        }
        dropped = set(sets[number]) - set(kept)
        assert not any(scores[lost].dominates(scores[parent]) for lost in dropped for parent in kept)


def test_infeasible_sets_are_built_upon_where_they_stand_out():
    # {0} is far too wrong to be feasible, but none accepts more: both ends of the front are kept.
    table = {
        (): GOOD,
        (0,): Score(3.0, 0.1),
        (1,): Score(2.0, 0.80),
        (2,): Score(1.95, 0.79),
        (3,): Score(1.91, 0.78),
        (0, 2): GOOD,
    }
    found = drive(
        spec_of("beam", beam_width=2, max_depth=2),
        5,
        lambda skip: table.get(skip.blocks, Score(1.0, 0.1)),
    )
    first, second = found.outcome.found["levels"]
    assert (found.outcome.pool, first["kept"]) == ((0, 1, 2, 3), [[0], [1]])
    assert SkipSet((2, 3)) not in found.scores
    assert SkipSet((0, 2)) in found.outcome.feasible
    assert (second["evaluated"], second["kept"]) == (5, [])
    assert not found.outcome.budget.exhaustive
    assert found.outcome.notes == (
        "strategy beam does not look at every set: it evaluated 9 of the 10 sets of up to 2 blocks that 4 blocks can "
        "form",
    )


def test_levels_that_were_not_begun_are_counted_at_most_and_that_is_told():
    spec = spec_of("beam", beam_width=1, max_depth=4, max_evaluations=9)
    found = drive(spec, 6, lambda skip: GOOD)
    budget = found.outcome.budget
    assert found.outcome.stopped == "search.max_evaluations was reached at level 2"
    assert budget.not_evaluated == {2: 3, 3: 4, 4: 3}
    assert found.outcome.notes[-1] == (
        "what was not evaluated after level 2 is the most that a beam of width 1 can have there"
    )
    assert replace(budget, not_evaluated={}).exhaustive is False


def test_a_level_too_large_says_what_makes_it_so():
    check_bounds(spec_of("beam", max_pool=512, beam_width=100), 600)
    with pytest.raises(InvalidInput, match=r"lower max_depth or max_pool or beam_width$"):
        check_bounds(spec_of("beam", max_pool=512, beam_width=4096), 600)
