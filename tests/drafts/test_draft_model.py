from __future__ import annotations

import pytest

from skipmap.drafts.base import StepOutcome
from skipmap.drafts.registry import check_params
from skipmap.errors import InvalidInput
from skipmap.tree import TokenTree
from tests.drafts.small.conftest import build, make, numbers, save, small, small_model

__all__ = ["build", "make", "numbers", "save", "small", "small_model"]


@pytest.mark.parametrize(
    ("params", "field", "says"),
    [
        ({}, "draft.params.model", "required"),
        ({"model": ""}, "draft.params.model", "at least 1 character"),
        ({"model": "a", "num_tokens": 0}, "draft.params.num_tokens", "greater than or equal to 1"),
        ({"model": "a", "schedule": "wild"}, "draft.params.schedule", "'constant', 'heuristic' or 'conf"),
        ({"model": "a", "confidence": 2}, "draft.params.confidence", "less than or equal to 1"),
        ({"model": "a", "revision": "a b"}, "draft.params.revision", "match pattern"),
        (
            {"model": "a", "schedule": "heuristic", "num_tokens": 30},
            "draft.params",
            "num_tokens 30 is above max_tokens 20",
        ),
    ],
)
def test_parameters_are_checked_without_a_model(params, field, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        check_params("draft_model", params)
    assert caught.value.field == field
    assert check_params("draft_model", {"model": "owner/name", "revision": "refs/pr/1"}).num_tokens == 5


def test_tree_size_is_that_of_the_longest_chain(make, small, tiny_target):
    target, name = tiny_target("llama"), small("llama", "other")
    sizes = [
        make("draft_model", target, model=name, num_tokens=7, schedule=schedule).tree_size
        for schedule in ("constant", "confidence", "heuristic")
    ]
    assert sizes == [8, 8, 21]


@pytest.mark.parametrize("schedule", ["constant", "heuristic"])
def test_chains_grow_and_shrink_with_what_is_accepted(schedule, make, small, tiny_target):
    draft = make(
        "draft_model",
        tiny_target("llama"),
        model=small("llama", "other"),
        num_tokens=3,
        schedule=schedule,
        max_tokens=6,
    )
    state, lengths = draft.fresh(), []
    for drafted, accepted in ((3, 3), (5, 5), (6, 6), (6, 5), (5, 0), (0, 0), (1, 1), *[(4, 1)] * 9):
        outcome = StepOutcome(TokenTree.chain([1] * drafted), tuple(range(accepted)), (5,), root=3)
        draft.observe(state, outcome)
        lengths.append(state.wanted)
    expected = [5, 6, 6, 5, 4, 4, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1]
    assert lengths == (expected if schedule == "heuristic" else [3] * len(expected))
