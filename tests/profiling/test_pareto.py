from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from skipmap.profiling.pareto import Score, crowding_distances, dominance_ranks, pareto_front

# Few values, so that equal scores and ties in one figure are common.
scores = st.dictionaries(
    st.integers(0, 20),
    st.builds(Score, st.sampled_from([1.0, 1.5, 2.0]), st.sampled_from([0.0, 0.3, 0.6])),
    max_size=12,
)


def beaten(score, others):
    return any(
        (o.accept, o.metric) != (score.accept, score.metric)
        and o.accept >= score.accept
        and o.metric >= score.metric
        for o in others
    )


@given(scores)
def test_front_is_what_nobody_beats(table):
    front = pareto_front(table)
    assert front == [key for key, score in table.items() if not beaten(score, table.values())]


@given(scores)
def test_ranks_peel_fronts(table):
    ranks = dominance_ranks(table)
    assert ranks.keys() == table.keys()
    for rank in range(max(ranks.values(), default=-1) + 1):
        left = {key: table[key] for key in table if ranks[key] >= rank}
        assert {key for key in left if ranks[key] == rank} == set(pareto_front(left))


@given(scores)
def test_ranks_do_not_depend_on_the_order(table):
    assert dominance_ranks(dict(reversed(table.items()))) == dominance_ranks(table)


class Watched:
    """A score that counts how often it is looked at."""

    looks = 0

    def __init__(self, figure):
        self._figure = figure

    @property
    def accept(self):
        Watched.looks += 1
        return self._figure

    metric = accept


def test_ranks_of_many_fronts_take_no_pass_for_each():
    # A job's next level is made in a transaction, from tens of thousands of scores.
    many = 500
    assert dominance_ranks({key: Watched(key) for key in range(many)}) == {
        key: many - 1 - key for key in range(many)
    }
    assert Watched.looks < 10 * many


def test_equal_scores_do_not_dominate_each_other():
    table = {"a": Score(1.0, 0.5), "b": Score(1.0, 0.5), "c": Score(1.0, 0.4)}
    assert pareto_front(table) == ["a", "b"]
    assert dominance_ranks(table) == {"a": 0, "b": 0, "c": 1}


def test_crowding_is_the_sum_of_normalised_gaps():
    table = {
        "low": Score(1.0, 0.9),
        "mid": Score(1.2, 0.5),
        "near": Score(1.3, 0.4),
        "high": Score(2.0, 0.1),
    }
    found = crowding_distances(table)
    assert found["low"] == found["high"] == math.inf
    assert math.isclose(found["mid"], (1.3 - 1.0) / 1.0 + (0.9 - 0.4) / 0.8)
    assert math.isclose(found["near"], (2.0 - 1.2) / 1.0 + (0.5 - 0.1) / 0.8)


def test_crowding_without_spread_divides_by_nothing():
    found = crowding_distances({key: Score(1.0, 0.5) for key in range(4)})
    assert Counter(found.values()) == {math.inf: 2, 0.0: 2}
    assert crowding_distances({0: Score(1.0, 0.5)}) == {0: math.inf}
