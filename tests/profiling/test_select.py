from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skipmap.profiling.pareto import Score
from skipmap.profiling.select import select, why_chosen
from skipmap.skipset import SkipSet


def cost(skip):
    """Each block a tenth, whatever its number."""
    return 1.0 - len(skip) / 10


def test_the_three_points_differ():
    sets = {
        # Best in both, so alone on the front: the paper's point.
        SkipSet((1,)): Score(2.2, 0.80),
        # 2.1 / 0.8 = 2.625 beats 2.2 / 0.9 = 2.444 and 1.8 / 0.7 = 2.571.
        SkipSet((1, 2)): Score(2.1, 0.79),
        SkipSet((1, 2, 3)): Score(1.8, 0.78),
    }
    found = select(sets, cost)
    assert found.front == (SkipSet((1,)),)
    assert found.points == {
        "paper": SkipSet((1,)),
        "fastest": SkipSet((1, 2)),
        "cheapest": SkipSet((1, 2, 3)),
    }


def test_nothing_feasible():
    found = select({}, cost)
    assert found.front == ()
    assert found.points == {"paper": None, "cheapest": None, "fastest": None}


def test_front_stands_in_ascending_order():
    sets = {
        SkipSet((5,)): Score(1.0, 0.9),
        SkipSet((2, 3)): Score(1.5, 0.5),
        SkipSet((2,)): Score(1.2, 0.7),
        SkipSet((4,)): Score(1.1, 0.7),
    }
    assert select(sets, cost).front == (SkipSet((2,)), SkipSet((2, 3)), SkipSet((5,)))


def test_ties_lower_cost_then_metric_then_accept_then_set():
    costs = {SkipSet((1,)): 0.8, SkipSet((2,)): 0.8, SkipSet((3,)): 0.8, SkipSet((4,)): 0.8}
    scores = {
        SkipSet((1,)): Score(2.0, 0.5),
        SkipSet((2,)): Score(1.0, 0.7),
        SkipSet((4,)): Score(1.5, 0.7),
        SkipSet((3,)): Score(1.5, 0.7),
    }

    def cheapest(blocks):
        return select({SkipSet((b,)): scores[SkipSet((b,))] for b in blocks}, costs.__getitem__).points[
            "cheapest"
        ]

    assert cheapest((1, 2)) == SkipSet((2,))
    assert cheapest((2, 3)) == SkipSet((3,))
    assert cheapest((3, 4)) == cheapest((4, 3)) == SkipSet((3,))
    assert select(scores, lambda s: 0.1 if s == SkipSet((1,)) else 0.8).points["cheapest"] == SkipSet((1,))


def test_equal_speed_goes_to_the_cheaper():
    sets = {SkipSet((1,)): Score(2.0, 0.9), SkipSet((2, 3)): Score(1.0, 0.1)}
    halves = {SkipSet((1,)): 1.0, SkipSet((2, 3)): 0.5}
    assert select(sets, halves.__getitem__).points["fastest"] == SkipSet((2, 3))


@given(
    st.dictionaries(
        st.frozensets(st.integers(0, 6), min_size=1, max_size=4).map(SkipSet.of),
        st.builds(Score, st.sampled_from([1.0, 1.5, 2.0]), st.sampled_from([0.3, 0.6])),
        min_size=1,
        max_size=15,
    )
)
def test_points_are_the_best_of_their_kind(feasible):
    found = select(feasible, cost)
    points = found.points
    assert points["paper"] in found.front
    assert cost(points["paper"]) == min(map(cost, found.front))
    assert cost(points["cheapest"]) == min(map(cost, feasible))
    assert feasible[points["fastest"]].accept / cost(points["fastest"]) == max(
        score.accept / cost(skip) for skip, score in feasible.items()
    )
    assert select(dict(reversed(feasible.items())), cost) == found


def test_why_a_point_was_chosen_says_what_tied_and_what_decided():
    sets = {
        SkipSet((1,)): Score(2.0, 0.5),
        SkipSet((2,)): Score(1.5, 0.7),
        SkipSet((3,)): Score(1.5, 0.7),
        SkipSet((4,)): Score(1.0, 0.7),
    }

    def why(*blocks, name="cheapest", cost=cost):
        among = {SkipSet((b,)): sets[SkipSet((b,))] for b in blocks}
        return why_chosen(name, select(among, cost), among, cost, "bleu")

    kept = "; 2 of them cost the same, and of these it has"
    assert why(1) == "only configuration that is feasible"
    assert why(1, name="paper") == "only configuration on the Pareto front"
    assert why(1, 2) == (
        f"cheapest in cost of a verification step of the 2 configurations that are feasible{kept} the highest bleu"
    )
    assert why(2, 4).endswith(f"{kept} the longest accept length")
    assert why(2, 3).endswith(f"{kept} the lowest block numbers")
    assert why(1, 2, 3, 4).endswith(
        "; 4 of them cost the same, and of these it has the highest bleu and, where that ties too, the longest accept "
        "length and, where that ties too, the lowest block numbers"
    )
    assert why(1, 2, name="paper").startswith(
        "cheapest in cost of a verification step of the 2 configurations on the Pareto front; 2 of them"
    )
    assert why(1, 2, name="fastest") == (
        "largest in accept length over cost of the 2 configurations that are feasible"
    )
    assert why(2, 3, name="fastest").endswith(
        "; 2 of them are equally fast by that, and of these it has the lowest block numbers"
    )
    # Nothing ties where the cost alone decides.
    alone = why(1, 2, cost=lambda skip: 0.9 if skip == SkipSet((1,)) else 1.0)
    assert alone == "cheapest in cost of a verification step of the 2 configurations that are feasible"
