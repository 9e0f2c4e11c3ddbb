from __future__ import annotations

import pytest

from skipmap.drafts.base import DraftContext
from skipmap.drafts.registry import check_params
from skipmap.errors import InvalidInput
from tests.drafts.small.conftest import build, make, numbers, save, small, small_model

__all__ = ["build", "make", "numbers", "save", "small", "small_model"]


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"inner": "draft_model"}, "inner draft_model needs an inner_model"),
        ({"inner_model": "b"}, "inner_model belongs to inner draft_model, but inner is prompt_lookup"),
        ({"inner_revision": "b"}, "inner_model belongs to inner draft_model"),
        ({"inner": "sam"}, "draft.params.inner: .*'prompt_lookup' or 'draft_model'"),
    ],
)
def test_parameters_are_checked_without_a_model(params, says):
    with pytest.raises(InvalidInput, match=says):
        check_params("staged", {"model": "a", **params})


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("inner", ["prompt_lookup", "draft_model"])
def test_chains_are_those_of_the_draft_model_alone(inner, temperature, make, small, tiny_target):
    target, name, other = tiny_target("gemma3"), small("gemma3", "pruned"), small("gemma3", "other")
    more = {"inner_model": other} if inner == "draft_model" else {}
    staged = make("staged", target, model=name, inner=inner, num_tokens=6, **more)
    alone = make("draft_model", target, model=name, num_tokens=6)
    contexts = [DraftContext([5, 7, *[row, 9] * 3], 20, temperature, seed=row) for row in range(4)]
    found, expected = (
        draft.propose_all([draft.fresh() for _ in contexts], contexts) for draft in (staged, alone)
    )
    assert found == expected
    assert [len(tree) for tree in found] == [6] * 4
    assert staged.propose(staged.fresh(), contexts[2]) == found[2]
    assert staged.tree_size == alone.tree_size == 7
    assert staged.fingerprint != alone.fingerprint


def test_the_inner_model_is_named_by_its_own_field(make, small, save, build, numbers, tiny_target):
    other = save(build(0), numbers(97, {5: "five"}))
    with pytest.raises(InvalidInput, match=r"^draft\.params\.inner_model: .* another vocabulary"):
        make(
            "staged",
            tiny_target("llama"),
            model=small("llama", "same"),
            inner="draft_model",
            inner_model=other,
        )
