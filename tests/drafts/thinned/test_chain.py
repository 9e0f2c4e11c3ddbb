"""Chains of a thinned target are those of a plain model that lacks the same parts, on the same history."""

from __future__ import annotations

import pytest
import torch

from skipmap.drafts.thinned.chain import ChainRule, draft_chains
from skipmap.skipset import SkipSet
from skipmap.target.detour import SubLayers
from skipmap.tree import TokenTree

SETS = [
    SubLayers(SkipSet((1, 4)), SkipSet((2, 4))),
    SubLayers.of_blocks(SkipSet((2, 5))),
    SubLayers(),
    SubLayers(mlp=SkipSet((0, 3))),
    SubLayers.of_blocks(SkipSet((0, 1))),
    SubLayers(attention=SkipSet((5,))),
]
"""Some of them share blocks with the skip sets of their rows."""
PLACES = [
    ("llama", "sparse", None),
    ("qwen2", "sparse", (1, 2, 5)),
    ("mistral", "dense", None),
    ("gemma3", "sparse", None),
    ("gemma3", "dense", (0, 3, 4)),
]


def propose(made, rules):
    return draft_chains([request.context for request in made], rules)


@pytest.mark.parametrize(("family", "policy", "taken"), PLACES)
@pytest.mark.parametrize("apart", [False, True])
def test_chains_are_those_of_a_model_that_lacks_the_same(requests, family, policy, taken, apart):
    _, made = requests(family, policy=policy, taken=taken)
    rules = [ChainRule(SETS[place if apart else 0], 7, 0.0) for place in range(len(made))]
    batch = made[0].context.row.batch
    used = batch.used.clone()
    trees = propose(made, rules)
    for request, rule, tree in zip(made, rules, trees, strict=True):
        thinned = request.history.thinned(rule.left_out.attention, rule.left_out.mlp)
        assert tree == TokenTree.chain(thinned.chain(7))
    assert batch.used.tolist() == used.tolist()
    assert propose(made, rules) == trees
    assert propose(made[::-1], rules[::-1]) == trees[::-1]
    one = made[1:2]
    assert propose(one, rules[1:2]) == trees[1:2]


def test_blocks_in_both_sets_make_no_difference(requests):
    _, made = requests("gemma3")
    other = SubLayers(SkipSet((1,)), SkipSet((4,)))
    both = [
        ChainRule(
            SubLayers(SkipSet.of([*request.context.row.skip, 1]), SkipSet.of([*request.context.row.skip, 4])),
            6,
            0,
        )
        for request in made
    ]
    assert propose(made, both) == propose(made, [ChainRule(other, 6, 0)] * 6)
    assert propose(made, both) != propose(made, [ChainRule(SubLayers(), 6, 0)] * 6)


def test_a_chain_ends_with_the_token_that_is_not_sure(requests):
    _, made = requests()
    lengths = set()
    for confidence in (0.2, 0.3, 0.5):
        trees = propose(made, [ChainRule(SETS[0], 7, confidence)] * 6)
        for request, tree in zip(made, trees, strict=True):
            thinned = request.history.thinned(SETS[0].attention, SETS[0].mlp)
            assert list(tree.tokens) == thinned.chain(7, confidence)
            lengths.add(len(tree))
    assert len(lengths) > 2


def test_a_chain_ends_before_the_last_token_and_needs_a_rule(requests):
    _, made = requests(remaining=3)
    trees = propose(made, [None, *[ChainRule(SETS[0], 7, 0.0)] * 5])
    assert [len(tree) for tree in trees] == [0, 2, 2, 2, 2, 2]
    _, made = requests(remaining=1)
    assert propose(made, [ChainRule(SETS[0], 7, 0.0)] * 6) == [TokenTree()] * 6


def test_tokens_are_drawn_from_what_the_tree_says(requests):
    _, made = requests("qwen3", temperature=0.7)
    rules = [ChainRule(left_out, 4, 0.0) for left_out in SETS]
    trees = propose(made, rules)
    differs = 0
    for request, rule, tree in zip(made, rules, trees, strict=True):
        thinned = request.history.thinned(rule.left_out.attention, rule.left_out.mlp)
        expected = (thinned.logits_of(tree.tokens) / 0.7).softmax(-1)
        assert sorted(tree.drawn_from) == [-1, 0, 1, 2]
        for parent, q in tree.drawn_from.items():
            torch.testing.assert_close(q, expected[parent + 1], rtol=1e-3, atol=1e-4)
        differs += list(tree.tokens) != thinned.chain(4)
    assert differs > 3
    assert [tree.tokens for tree in propose(made[2:4], rules[2:4])] == [tree.tokens for tree in trees[2:4]]


def test_slots_are_enough_for_the_longest_chain(requests):
    # The longest answer has 7 tokens committed; a chain of 7 tokens writes the root and six of them.
    _, made = requests(slots=14)
    assert {len(tree) for tree in propose(made, [ChainRule(SETS[0], 7, 0.0)] * 6)} == {7}
