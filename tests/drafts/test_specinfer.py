from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from skipmap.drafts.base import DraftContext
from skipmap.drafts.registry import check_params
from skipmap.errors import InvalidInput
from skipmap.tree import ROOT
from tests.drafts.small.conftest import build, make, next_logits, numbers, save, small, small_model

__all__ = ["build", "make", "next_logits", "numbers", "save", "small", "small_model"]


@pytest.mark.parametrize(
    ("params", "field", "says"),
    [
        ({}, "draft.params.models", "required"),
        ({"models": "a,,b"}, "draft.params.models", "empty name"),
        ({"models": "a,b,c,d,e"}, "draft.params.models", "names 5 models; at most 4"),
        ({"models": "a", "widths": "1,0"}, "draft.params.widths", "match pattern"),
        ({"models": "a", "widths": "1,2;3"}, "draft.params.widths", "match pattern"),
        ({"models": "a", "widths": "9,9,9"}, "draft.params.widths", "a tree of 819 nodes; at most 256"),
        ({"models": "a,b", "revisions": "v1"}, "draft.params", "revisions names 1, but models names 2"),
    ],
)
def test_parameters_are_checked_without_a_model(params, field, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        check_params("specinfer", params)
    assert caught.value.field == field
    assert check_params("specinfer", {"models": "a, b", "revisions": ",v1"}).widths == "1,1,3,1,1,1,1,1"


def contexts_of(temperature):
    texts = [[5, 7, 9, row, 11] for row in range(3)] * 2
    return [
        DraftContext([*text, row], 20 if row else 2, temperature, seed=row) for row, text in enumerate(texts)
    ]


def paths(tree):
    """The tokens on the way to each node."""
    found = {ROOT: ()}
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        found[node] = (*found[parent], token)
    return found


def by_hand(models, next_logits, text, widths):
    """Paths of the nodes of all models' trees of likeliest tokens."""
    found = set()
    for model in models:
        tips = [()]
        for width in widths:
            below = [
                (tip, next_logits(model, [*text, *tip])[-1].topk(width).indices.tolist()) for tip in tips
            ]
            tips = [(*tip, token) for tip, tokens in below for token in tokens]
            found.update(tips)
    return found


@pytest.mark.parametrize("kinds", [["same"], ["pruned", "same"], ["same", "same"]])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_trees_are_the_union_of_the_models_own(
    family, kinds, make, small, small_model, tiny_target, next_logits
):
    names = ",".join(small(family, kind) for kind in kinds)
    draft = make("specinfer", tiny_target(family), models=names, widths="2,1,3")
    contexts = contexts_of(0.0)
    states = [draft.fresh() for _ in contexts]
    for _ in range(2):
        trees = draft.propose_all(states, contexts)
        for context, tree in zip(contexts, trees, strict=True):
            models = [small_model(family, kind) for kind in kinds]
            expected = by_hand(models, next_logits, context.tokens, (2, 1, 3)[: context.remaining])
            found = paths(tree)
            assert set(found.values()) == {(), *expected}
            assert len(found) == 1 + len(expected)
            assert not tree.drawn_from
        # Go on along some branch, so that it is kept.
        contexts = [
            replace(context, tokens=[*context.tokens, *paths(tree)[len(tree) - 1 - row], row])
            for row, (context, tree) in enumerate(zip(contexts, trees, strict=True))
        ]
    assert draft.propose(states[4], contexts[4]) == draft.propose(draft.fresh(), contexts[4])
    assert draft.tree_size == 1 + len(kinds) * (2 + 2 + 6)


@pytest.mark.parametrize("kinds", [["pruned"], ["pruned", "other"]])
def test_drawn_trees_say_what_they_were_drawn_from(kinds, make, small, small_model, tiny_target, next_logits):
    names = ",".join(small("gemma3", kind) for kind in kinds)
    draft = make("specinfer", tiny_target("gemma3"), models=names, widths="1,2,2")
    contexts = contexts_of(0.8)
    trees = draft.propose_all([draft.fresh() for _ in contexts], contexts)
    for context, tree in zip(contexts, trees, strict=True):
        levels = [len(kinds) * size for size in (1, 2, 4)][: context.remaining]
        assert [tree.depths.count(depth + 1) for depth in range(len(levels))] == levels
        for node, path in paths(tree).items():
            children = [tree.tokens[child] for child in tree.children.get(node, ())]
            assert (node in tree.drawn_from) == bool(children)
            assert len(set(children)) == len(children)
            if children:
                text = [*context.tokens, *path]
                rows = [next_logits(small_model("gemma3", kind), text)[-1] for kind in kinds]
                mean = sum((row / 0.8).softmax(-1) for row in rows) / len(rows)
                torch.testing.assert_close(tree.drawn_from[node], mean, rtol=1e-4, atol=1e-5)
    assert draft.propose(draft.fresh(), contexts[3]) == trees[3]
    assert trees[1].tokens != trees[4].tokens


def test_a_model_that_does_not_fit_is_named(make, small, save, build, numbers, tiny_target):
    other = save(build(0), numbers(97, {5: "five"}))
    with pytest.raises(InvalidInput, match=r"^draft\.params\.models: .* another vocabulary"):
        make("specinfer", tiny_target("llama"), models=f"{small('llama', 'same')}, {other}")
