from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.decoding.counts import StepCounts, histogram, merge, position_acceptance
from skipmap.tree import ROOT, TokenTree

values = st.lists(st.integers(0, 6))
#    root -> 5 -> 6 -> 7 and two more children of the root
BUSHY = TokenTree((5, 8, 6, 9, 7), (ROOT, ROOT, 0, ROOT, 2))


def test_steps_by_hand():
    counts = StepCounts()
    counts.add(emitted=4, path=3, tree=BUSHY)
    counts.add(emitted=1, path=0, tree=TokenTree())
    counts.add(emitted=2, path=1, tree=TokenTree.chain([1, 2, 3]))
    assert counts == StepCounts(emitted=[4, 1, 2], accepted=[3, 0, 1], proposed=[3, 0, 3], scored=[6, 1, 4])
    assert counts.steps == 3


@pytest.mark.parametrize(
    ("emitted", "accepted"), [(4, 3), (3, 3), (2, 2), (1, 1)], ids=["bonus", "no bonus", "inside", "at once"]
)
def test_step_whose_answer_ends_inside_the_path_counts_what_was_emitted(emitted, accepted):
    counts = StepCounts()
    counts.add(emitted, path=3, tree=BUSHY)
    assert (counts.emitted, counts.accepted) == ([emitted], [accepted])
    assert (counts.proposed, counts.scored) == ([3], [6])


def test_answers_are_put_together_in_order():
    one, other = StepCounts(), StepCounts()
    one.add(2, 1, TokenTree.chain([1]))
    other.add(1, 0, TokenTree())
    other.add(3, 2, BUSHY)
    one.extend(other)
    assert one == StepCounts([2, 1, 3], [1, 0, 2], [1, 0, 3], [2, 1, 6])
    assert other.steps == 2
    assert StepCounts().steps == 0


def test_histogram_by_hand():
    assert histogram([]) == ()
    assert histogram([0]) == (1,)
    assert histogram([3, 0, 1, 3, 3]) == (1, 1, 0, 3)


def test_merge_by_hand():
    assert merge([]) == ()
    assert merge([(), (1,), (0, 2, 5), (3, 1)]) == (4, 3, 5)


@given(st.lists(values, max_size=5))
def test_histogram_of_all_is_the_sum_of_the_parts(parts):
    assert merge([histogram(part) for part in parts]) == histogram(
        [value for part in parts for value in part]
    )


def test_position_acceptance_by_hand():
    # Five steps: proposed 0, 1, 3, 3, 2 tokens in a row and accepted 0, 1, 0, 3, 1 of them.
    accepted, proposed = histogram([0, 1, 0, 3, 1]), histogram([0, 1, 3, 3, 2])
    assert position_acceptance(accepted, proposed) == (3 / 4, 1 / 3, 1 / 2)


def test_position_acceptance_where_nothing_was_accepted_or_proposed():
    assert position_acceptance((3,), (0, 2, 1)) == (0.0, 0.0)
    assert position_acceptance((4,), (4,)) == ()
    assert position_acceptance((), ()) == ()


@given(st.lists(st.integers(0, 6).flatmap(lambda depth: st.tuples(st.integers(0, depth), st.just(depth)))))
def test_position_acceptance_counts_step_by_step(steps):
    found = position_acceptance(histogram([a for a, _ in steps]), histogram([p for _, p in steps]))
    assert len(found) == max((p for _, p in steps), default=0)
    for depth, share in enumerate(found, start=1):
        offered = [accepted >= depth for accepted, proposed in steps if proposed >= depth]
        assert share == sum(offered) / len(offered)
