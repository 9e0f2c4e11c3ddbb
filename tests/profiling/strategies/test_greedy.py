from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, check_bounds
from skipmap.skipset import SkipSet
from tests.profiling.strategies.driving import GOOD, drive, random_scores, spec_of


def as_told(layers, score_of, depth, first, last, floor):
    """The strategy in a few lines: (sets evaluated, sets taken)."""
    taken, evaluated, path = (), [()], []
    for _ in range(min(depth, layers - 1, layers - first - last)):
        tried = [tuple(sorted((*taken, b))) for b in range(first, layers - last) if b not in taken]
        evaluated += tried
        best = max(score_of(SkipSet(s)).metric for s in tried)
        if best < floor:
            break
        equal = [s for s in tried if score_of(SkipSet(s)).metric == best]
        taken = max(equal, key=lambda s: next(b for b in s if b not in taken))
        path.append(taken)
    return evaluated, path


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2))
def test_takes_the_best_metric_the_deepest_of_equals_until_it_is_below_its_floor(
    seed, layers, depth, first, last
):
    if first + last >= layers:
        return
    score_of = random_scores(seed)
    spec = spec_of("greedy", max_depth=depth, protect_first=first, protect_last=last)
    found = drive(spec, layers, score_of)
    evaluated, path = as_told(layers, score_of, depth, first, last, 0.95 * 0.8 - 1e-9)
    assert sorted(found.scores) == sorted(map(SkipSet, evaluated))
    assert found.outcome.found == {"path": [list(blocks) for blocks in path]}
    assert found.outcome.pool == tuple(range(first, layers - last))


def test_accept_length_does_not_guide_it_but_decides_what_is_feasible():
    def score_of(skip):
        return GOOD if skip == DENSE else Score(1.0 if 3 in skip else 2.0, 0.8)

    found = drive(spec_of("greedy", max_depth=2), 4, score_of)
    assert found.outcome.found["path"] == [[3], [2, 3]]
    assert found.outcome.feasible == (SkipSet((1,)), SkipSet((2,)))


def test_says_why_it_ended():
    def worse(skip):
        return GOOD if len(skip) < 2 else Score(2.0, 0.5)

    found = drive(spec_of("greedy"), 6, worse)
    assert found.outcome.stopped == "the best metric of round 2 is below its floor"
    assert found.outcome.budget.not_evaluated == {}
    assert found.outcome.budget.depth_reached == 2
    assert drive(spec_of("greedy"), 6, lambda skip: GOOD).outcome.stopped == "all rounds up to 3 were taken"


def test_round_that_is_cut_has_tried_its_deepest_blocks_and_takes_none():
    # Dense, five blocks, then room for two of the four pairs.
    found = drive(spec_of("greedy", max_evaluations=8), 6, lambda skip: GOOD)
    assert sorted(s for s in found.scores if len(s) == 2) == [SkipSet((3, 5)), SkipSet((4, 5))]
    assert found.outcome.found["path"] == [[5]]
    assert found.outcome.stopped == "search.max_evaluations was reached at level 2"
    assert found.outcome.budget.not_evaluated == {2: 2, 3: 3}
    assert SkipSet((3, 5)) in found.outcome.feasible


def test_depth_is_clamped_to_the_blocks_that_may_go():
    found = drive(spec_of("greedy", protect_first=3, max_depth=4), 5, lambda skip: GOOD)
    assert found.outcome.budget.depth_clamped
    assert found.outcome.budget.depth_reached == 2


def test_protection_must_leave_a_block():
    check_bounds(spec_of("greedy", protect_first=3, protect_last=2), 6)
    with pytest.raises(InvalidInput, match=r"^search.protect_first: .* together they may be at most 5$"):
        check_bounds(spec_of("greedy", protect_first=3, protect_last=3), 6)
    # The field that was given is the one to change.
    with pytest.raises(InvalidInput, match=r"^search.protect_last: protect_first 1 and protect_last 6 leave"):
        check_bounds(spec_of("greedy", protect_last=6), 6)
