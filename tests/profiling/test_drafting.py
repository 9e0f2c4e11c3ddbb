from __future__ import annotations

import pytest

from skipmap.profiling.drafting import StepTimes, drafting

# Ten steps: four without a draft, one of depth 1, three of depth 2, two of depth 4.
PROPOSED = [4, 1, 3, 0, 2]
ACCEPTED = [6, 1, 2, 1]


def row(**changes):
    return {
        "steps": 10,
        "tree_size": 2.5,
        "accepted_histogram": ACCEPTED,
        "proposed_histogram": PROPOSED,
    } | changes


def test_counts_of_ten_steps():
    counts = drafting(row())
    assert counts is not None
    assert (counts.steps, counts.undrafted, counts.deepest, counts.most_accepted) == (10, 4, 4, 3)
    assert counts.mean_accepted == pytest.approx((1 * 1 + 2 * 2 + 1 * 3) / 10)
    assert (counts.tree_size, counts.times) == (2.5, None)
    assert [counts.accepting(*group) for group in ((0, 0), (1, 1), (2, 3), (2,), (4, 7), (8,))] == [
        *(6, 1, 3, 3, 0, 0)
    ]
    assert counts.share(2, 3) == 0.3
    assert [counts.drafted_at(position) for position in (1, 2, 3, 4, 5)] == [6, 5, 2, 2, 0]
    assert [counts.acceptance_at(position) for position in (1, 2, 3, 4)] == [4 / 6, 3 / 5, 1 / 2, 0]
    assert counts.acceptance_at(5) is None


def test_steps_that_never_had_a_draft():
    counts = drafting(row(accepted_histogram=[10], proposed_histogram=[10]))
    assert counts is not None
    assert (counts.deepest, counts.most_accepted, counts.undrafted, counts.mean_accepted) == (0, 0, 10, 0)
    assert counts.acceptance_at(1) is None


def test_zeros_at_the_end_change_nothing():
    padded = drafting(row(accepted_histogram=[*ACCEPTED, 0, 0], proposed_histogram=[*PROPOSED, 0]))
    assert padded is not None
    assert (padded.deepest, padded.most_accepted, padded.acceptance_at(5)) == (4, 3, None)


@pytest.mark.parametrize(
    "without",
    [
        {"accepted_histogram": None},
        {"proposed_histogram": None},
        # A prompt's record that an older version stored counts steps, but holds no histogram.
        {"accepted_histogram": [], "proposed_histogram": []},
        {"steps": 14},
        {"steps": 0, "accepted_histogram": [], "proposed_histogram": []},
    ],
)
def test_rows_without_counters_have_nothing_to_show(without):
    assert drafting({name: value for name, value in row(**without).items() if value is not None}) is None


def test_held_out_times_are_shared_out_over_the_steps():
    prompts = [{"scored": 9, "seconds": 1.0}, {"scored": 12, "seconds": 2.0}]
    held_out = row(draft_seconds=0.5, verify_seconds=2.0, per_prompt=prompts)
    del held_out["tree_size"]
    counts = drafting(held_out)
    assert counts is not None
    assert counts.tree_size == 2.1
    assert counts.times == StepTimes(0.05, 0.2, pytest.approx(0.05))


def test_without_prompts_neither_rest_nor_scored_positions_are_known():
    held_out = row(draft_seconds=0.5, verify_seconds=2.0)
    del held_out["tree_size"]
    counts = drafting(held_out)
    assert counts is not None
    assert counts.tree_size is None
    assert counts.times == StepTimes(0.05, 0.2, None)


def test_times_that_were_not_taken_are_not_shown_as_zero():
    counts = drafting(row(draft_seconds=0.0, verify_seconds=0.0))
    assert counts is not None
    assert counts.times is None
