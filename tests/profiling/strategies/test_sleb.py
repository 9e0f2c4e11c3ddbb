from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.profiling.search import DENSE, check_bounds
from skipmap.skipset import SkipSet
from tests.profiling.strategies.driving import GOOD, drive, random_ranks, random_scores, spec_of


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 6))
def test_each_round_takes_the_lowest_of_the_inner_blocks(seed, layers, depth):
    rank_of = random_ranks(seed)
    found = drive(spec_of("sleb", max_depth=depth), layers, random_scores(seed), rank_of)
    taken, ranked, path = (), {()}, [()]
    for _ in range(min(depth, layers - 2)):
        tried = [tuple(sorted((*taken, b))) for b in range(1, layers - 1) if b not in taken]
        ranked |= set(tried)
        taken = min(tried, key=lambda s: (rank_of(SkipSet(s)), s))
        path.append(taken)
    assert set(found.ranks) == set(map(SkipSet, ranked))
    assert set(found.scores) == set(map(SkipSet, path))
    assert found.outcome.found == {
        "path": [{"skip": list(s), "log_perplexity": rank_of(SkipSet(s))} for s in path]
    }


def test_a_rank_level_comes_before_each_level_and_begins_with_dense():
    found = drive(spec_of("sleb", max_depth=2), 5, lambda skip: GOOD, random_ranks(0))
    assert [(work.kind, work.level, work.size) for work in found.works] == [
        ("dense", 0, 1),
        ("rank", 1, 4),
        ("single", 1, 1),
        ("rank", 2, 2),
        ("level", 2, 1),
    ]
    assert found.works[1].groups[0][0] == DENSE


def test_nothing_is_ranked_that_could_not_be_evaluated():
    found = drive(spec_of("sleb", max_depth=3, max_evaluations=2), 6, lambda skip: GOOD, random_ranks(0))
    assert {work.level for work in found.works if work.kind == "rank"} == {1}
    assert found.outcome.budget.not_evaluated == {2: 1, 3: 1}
    assert found.outcome.stopped == "search.max_evaluations was reached at level 2"
    assert len(found.outcome.found["path"]) == 2


def test_time_that_ends_in_a_ranking_leaves_the_path_where_it_was():
    # A second a group: dense, two of ranks, one set, then one of two groups of ranks.
    spec = spec_of("sleb", max_depth=3, group_size=3, max_seconds=5)
    found = drive(spec, 7, lambda skip: GOOD, random_ranks(0), seconds_a_group=1.0)
    assert [len(step["skip"]) for step in found.outcome.found["path"]] == [0, 1]
    assert found.outcome.budget.ranked == 6 + 3
    assert found.outcome.budget.not_evaluated == {2: 1, 3: 1}
    assert found.outcome.stopped == "search.max_seconds was reached at level 2"


def test_two_blocks_are_both_protected():
    with pytest.raises(InvalidInput, match=r"^target: has 2 blocks; sleb protects"):
        check_bounds(spec_of("sleb"), 2)
    check_bounds(spec_of("sleb"), 3)
