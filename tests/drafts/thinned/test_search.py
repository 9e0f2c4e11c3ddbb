from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from skipmap.drafts.thinned.search import Search, SearchBounds, upper_bounds
from skipmap.skipset import SkipSet

BOUNDS = SearchBounds(bayes_every=4, max_score=0.95, patience=6, max_rounds=50)
BLOCKS = (1, 2, 4, 5)


def begun(ratio: float = 0.45) -> Search:
    return Search.begin(BLOCKS, SkipSet((1, 4)), ratio)


def test_the_first_set_is_the_one_to_begin_with() -> None:
    search = begun()
    first = search.candidate(BOUNDS, np.random.default_rng(0))
    assert search.sets(first) == (SkipSet((1, 4)), SkipSet((1, 4)))
    search = search.after(first, 0.5)
    assert (search.score, search.rounds, search.idle) == (0.5, 1, 0)


def test_sets_have_the_wanted_size_and_follow_the_seed_alone() -> None:
    search = begun().after(begun().best, 0.1)
    seen = set()
    for seed in range(40):
        choice = search.candidate(BOUNDS, np.random.default_rng(seed))
        assert (choice == search.candidate(BOUNDS, np.random.default_rng(seed))).all()
        attention, mlp = search.sets(choice)
        assert len(attention) + len(mlp) == 3
        assert {*attention, *mlp} <= {*BLOCKS}
        seen.add((attention, mlp))
    assert len(seen) > 20


def test_the_best_set_is_kept_and_older_searches_stay_as_they_are() -> None:
    search, random = begun(), np.random.default_rng(1)
    best, scores = 0.0, [0.2, 0.6, 0.6, 0.3, 0.7]
    for score in scores:
        before, tried = search, search.candidate(BOUNDS, random)
        search = search.after(tried, score)
        assert before.scores == search.scores[:-1]
        if score > best:
            best = score
            assert (search.best == tried).all()
        assert search.score == best
    assert search.idle == 0
    assert search.scores == tuple(scores)


@pytest.mark.parametrize(
    ("scores", "rounds"), [([0.1, 0.95], 2), ([0.2] * 20, 7), ([0.01 * n for n in range(90)], 50)]
)
def test_it_ends_with_a_good_score_without_gain_or_after_all_rounds(scores, rounds) -> None:
    search, random = begun(), np.random.default_rng(2)
    for number, score in enumerate(scores):
        assert search.is_over(BOUNDS) == (number >= rounds)
        if search.is_over(BOUNDS):
            break
        search = search.after(search.candidate(BOUNDS, random), score)
    assert search.is_over(BOUNDS)
    assert begun(ratio=0.1).is_over(BOUNDS)


def test_the_model_knows_what_it_has_seen_and_hopes_for_what_it_has_not() -> None:
    every = np.array([[i in s for i in range(6)] for s in combinations(range(6), 3)])
    scores = every[:, :3].sum(1) / 3
    tried, rest = every[::2], every[1::2]
    known = upper_bounds(tried, scores[::2], tried)
    assert np.argmax(known) == np.argmax(scores[::2])
    # Far from all that was tried the bound is the prior's mean and 2.5 of its deviations.
    far = upper_bounds(np.ones((3, 400), np.bool_), np.array([0.1, 0.2, 0.3]), np.zeros((1, 400), np.bool_))
    assert far == pytest.approx(2.5, abs=0.1)
    assert np.corrcoef(upper_bounds(tried, scores[::2], rest), scores[1::2])[0, 1] > 0.5


def test_proposals_by_the_model_beat_random_ones_where_scores_are_sums() -> None:
    """The score of a set is the share of three sub-layers that can be spared: what a surrogate is good at."""
    blocks, spared = tuple(range(1, 9)), np.arange(16) < 4
    best = {}
    for every in (3, 10_000):
        bounds = SearchBounds(every, 2.0, 10_000, 10_000)
        found = []
        for seed in range(6):
            search, random = Search.begin(blocks, SkipSet(), 0.25), np.random.default_rng(seed)
            for _ in range(40):
                choice = search.candidate(bounds, random)
                search = search.after(choice, float((choice & spared).sum()) / 4)
            found.append(search.score)
        best[every] = np.mean(found)
    assert best[3] > best[10_000]
