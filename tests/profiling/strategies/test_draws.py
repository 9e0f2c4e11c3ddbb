from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.profiling.strategies.draws import draw
from skipmap.skipset import SkipSet
from tests.profiling.strategies.driving import GOOD, drive, random_scores, spec_of


@given(st.integers(2, 9), st.integers(1, 8), st.integers(1, 40), st.integers(0, 10**6))
def test_draws_are_distinct_sets_of_their_size_and_keyed(layers, size, draws, seed):
    if size >= layers:
        return
    drawn = draw(layers, size, draws, seed)
    assert len(drawn) == len(set(drawn)) == min(draws, comb(layers, size))
    assert all(len(skip) == size and set(skip) <= set(range(layers)) for skip in drawn)
    # Asking for fewer gives the first of the same ones.
    assert draw(layers, size, max(1, draws // 2), seed) == drawn[: max(1, draws // 2)]


def test_every_set_comes_equally_often():
    seeds, draws = 2000, 3
    counts = Counter(skip for seed in range(seeds) for skip in draw(5, 2, draws, seed))
    expected = seeds * draws / comb(5, 2)
    assert set(counts) == set(map(SkipSet, combinations(range(5), 2)))
    # Five standard deviations of a count.
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5


def test_seeds_and_sizes_have_streams_of_their_own():
    assert draw(20, 3, 5, 0) != draw(20, 3, 5, 1)
    assert [skip.blocks[:1] for skip in draw(20, 1, 5, 0)] != [skip.blocks[:1] for skip in draw(20, 2, 5, 0)]


def test_draws_stay_the_same_in_later_versions():
    # A stored job must be resumed with the sets that it began with.
    assert draw(30, 2, 3, 0) == (SkipSet((10, 23)), SkipSet((21, 27)), SkipSet((21, 24)))


@pytest.mark.parametrize("measure", ["tokens_per_step", "accepted_drafts"])
def test_mean_and_spread_of_each_size(measure):
    spec = spec_of("random", draws=4, max_depth=3, seed=7, accept_measure=measure)
    found = drive(spec, 6, random_scores(1))
    sizes = found.outcome.found["sizes"]
    assert [size["size"] for size in sizes] == [1, 2, 3]
    for size in sizes:
        rows = [found.scores[skip] for skip in draw(6, size["size"], 4, 7)]
        key = "accept_length" if measure == "tokens_per_step" else "accepted_drafts"
        for name, values in ((key, [r.accept for r in rows]), ("metric", [r.metric for r in rows])):
            told = size[name]
            assert told["mean"] == pytest.approx(np.mean(values))
            assert told["standard_deviation"] == pytest.approx(np.std(values, ddof=1))
            assert (told["min"], told["max"]) == (min(values), max(values))
        assert (size["evaluated"], size["possible"]) == (4, comb(6, size["size"]))


def test_sizes_go_on_whatever_they_score_until_a_bound():
    found = drive(spec_of("random", draws=2, max_depth=4), 6, random_scores(3))
    assert found.sizes() == {0: 1, 1: 2, 2: 2, 3: 2, 4: 2}
    cut = drive(spec_of("random", draws=4, max_depth=3, max_evaluations=7), 6, lambda skip: GOOD)
    assert sorted(skip for skip in cut.scores if len(skip) == 2) == sorted(draw(6, 2, 4, 0)[:2])
    assert cut.outcome.budget.not_evaluated == {2: 2, 3: 4}
    assert cut.outcome.stopped == "search.max_evaluations was reached at level 2"


def test_a_size_that_time_cuts_has_no_mean():
    # Dense, then two of the four groups of single blocks: those of the lowest numbers, whatever was drawn first.
    spec = spec_of("random", draws=16, max_depth=2, group_size=4, max_seconds=3.0)
    found = drive(spec, 30, lambda skip: GOOD, seconds_a_group=1.0)
    assert sorted(found.scores)[1:] == sorted(draw(30, 1, 16, 0))[:8]
    assert found.outcome.found["sizes"] == []
    assert found.outcome.notes[-1] == (
        "sets of 1 have no mean: time ended with those of the lowest block numbers"
    )
    assert found.outcome.budget.not_evaluated == {1: 8, 2: 16}


def test_single_draw_has_no_spread():
    found = drive(spec_of("random", draws=1, max_depth=1), 4, lambda skip: GOOD)
    assert found.outcome.found["sizes"][0]["metric"]["standard_deviation"] is None
