from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.tree import ROOT, TokenTree, accept_greedy, accept_text


@st.composite
def trees(draw: st.DrawFn) -> TokenTree:
    parents = [draw(st.integers(ROOT, node - 1)) for node in range(draw(st.integers(0, 12)))]
    return TokenTree(tuple(draw(st.integers(0, 3)) for _ in parents), tuple(parents))


def path_to(tree: TokenTree, node: int) -> list[int]:
    """Nodes from the root's child down to ``node``."""
    path = []
    while node != ROOT:
        path.insert(0, node)
        node = tree.parents[node]
    return path


#      root
#     /    \
#    5(0)   6(1)
#    |      |   \
#    7(2)   7(3) 8(4)
SMALL = TokenTree((5, 6, 7, 7, 8), (ROOT, ROOT, 0, 1, 1))


def test_chain_is_a_tree_with_one_path():
    chain = TokenTree.chain([4, 5, 6])
    assert chain.parents == (ROOT, 0, 1)
    assert chain.depths == (1, 2, 3)
    assert chain.is_chain
    assert not SMALL.is_chain
    assert TokenTree().is_chain
    assert len(TokenTree()) == 0


@pytest.mark.parametrize("parents", [(0,), (ROOT, 1), (ROOT, -2)])
def test_node_before_its_parent_is_refused(parents):
    with pytest.raises(ValueError, match="parent-before-child"):
        TokenTree((1,) * len(parents), parents)


def test_as_many_parents_as_tokens():
    with pytest.raises(ValueError, match="2 tokens but 1 parents"):
        TokenTree((1, 2), (ROOT,))


def test_small_tree_by_hand():
    assert SMALL.depths == (1, 1, 2, 2, 2)
    assert SMALL.children == {ROOT: (0, 1), 0: (2,), 1: (3, 4)}
    assert SMALL.truncate(1) == TokenTree((5, 6), (ROOT, ROOT))
    assert SMALL.truncate(0) == TokenTree()
    assert SMALL.truncate(2) is SMALL


@given(trees())
def test_depth_and_ancestors_follow_from_the_path(tree):
    mask = tree.ancestors.tolist()
    assert mask[0] == [True] + [False] * len(tree)
    for node in range(len(tree)):
        path = path_to(tree, node)
        assert tree.depths[node] == len(path)
        assert {column for column, seen in enumerate(mask[node + 1]) if seen} == {0, *(n + 1 for n in path)}


@given(trees(), st.integers(0, 5))
def test_truncate_keeps_exactly_the_paths_that_are_short_enough(tree, depth):
    def paths(of: TokenTree) -> list[list[int]]:
        return [[of.tokens[n] for n in path_to(of, node)] for node in range(len(of))]

    assert paths(tree.truncate(depth)) == [path for path in paths(tree) if len(path) <= depth]


def test_greedy_acceptance_by_hand():
    assert accept_greedy(SMALL, [6, 0, 8, 0, 0, 9]) == ([1, 4], 9)
    assert accept_greedy(SMALL, [5, 7, 0, 3, 0, 0]) == ([0, 2], 3)
    assert accept_greedy(SMALL, [5, 6, 0, 3, 0, 0]) == ([0], 6)
    assert accept_greedy(SMALL, [7, 0, 0, 0, 0, 0]) == ([], 7)
    assert accept_greedy(TokenTree(), [2]) == ([], 2)


@given(trees(), st.lists(st.integers(0, 3), min_size=13, max_size=13))
def test_accepted_path_agrees_with_the_choices_and_cannot_be_longer(tree, choices):
    path, bonus = accept_greedy(tree, choices[: len(tree) + 1])
    assert path == (path_to(tree, path[-1]) if path else [])
    places = [0, *(node + 1 for node in path)]
    assert [tree.tokens[node] for node in path] == [choices[place] for place in places[:-1]]
    assert bonus == choices[places[-1]]
    last = path[-1] if path else ROOT
    assert bonus not in [tree.tokens[child] for child in tree.children.get(last, ())]


@given(trees(), st.lists(st.integers(0, 3), min_size=13, max_size=13))
def test_known_text_accepts_what_a_target_that_writes_it_accepts(tree, text):
    choices = [text[0], *(text[depth] for depth in tree.depths)]
    assert accept_text(tree, text) == accept_greedy(tree, choices)[0]


@given(trees(), st.integers(0, 4))
def test_text_that_ends_bounds_the_path(tree, length):
    text = [0] * length
    assert len(accept_text(tree, text)) <= length
    assert accept_text(tree, text) == accept_text(tree, [0] * 13)[:length]
