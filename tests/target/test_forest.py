from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skipmap.target.forest import plant
from skipmap.tree import ROOT, TokenTree


@st.composite
def trees(draw: st.DrawFn) -> TokenTree:
    parents = [draw(st.integers(ROOT, node - 1)) for node in range(draw(st.integers(0, 9)))]
    return TokenTree(tuple(draw(st.integers(1, 96)) for _ in parents), tuple(parents))


def test_rows_are_padded_to_the_largest_tree():
    #       4          6
    #      / \         |
    #     1   2        5
    #         |
    #         3
    forest = plant([4, 7, 6], [TokenTree((1, 2, 3), (ROOT, ROOT, 1)), TokenTree(), TokenTree.chain([5])])
    assert forest.tokens.tolist() == [[4, 1, 2, 3], [7, 0, 0, 0], [6, 5, 0, 0]]
    assert forest.counts.tolist() == [4, 1, 2]
    assert forest.depths.tolist() == [[0, 1, 1, 2], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert forest.ancestors.int().tolist() == [
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]],
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    ]


def test_chains_bring_no_masks():
    forest = plant([4, 7], [TokenTree.chain([1, 2]), TokenTree()])
    assert forest.tokens.tolist() == [[4, 1, 2], [7, 0, 0]]
    assert (forest.depths, forest.ancestors) == (None, None)
    assert plant([4], [TokenTree()]).tokens.tolist() == [[4]]


def test_every_row_needs_its_tree():
    with pytest.raises(ValueError, match="zip"):
        plant([1, 2], [TokenTree()])


def test_masks_of_one_step_are_not_those_of_another():
    tree = TokenTree((1, 2), (ROOT, ROOT))
    first = plant([3], [tree])
    first.ancestors[:] = False
    first.depths[:] = 9
    again = plant([3], [tree])
    assert again.ancestors.int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 0, 1]]]
    assert again.depths.tolist() == [[0, 1, 1]]


@given(st.lists(st.tuples(st.integers(1, 96), trees()), min_size=1, max_size=5))
def test_layout_is_that_of_each_tree(rows):
    roots, planted = zip(*rows, strict=True)
    forest = plant(roots, planted)
    width = max(len(tree) for tree in planted) + 1
    assert forest.tokens.shape == (len(rows), width)
    assert forest.counts.tolist() == [1 + len(tree) for tree in planted]
    assert (forest.ancestors is None) == (forest.depths is None) == all(tree.is_chain for tree in planted)
    for row, (root, tree) in enumerate(rows):
        count = 1 + len(tree)
        assert forest.tokens[row].tolist() == [root, *tree.tokens] + [0] * (width - count)
        if forest.ancestors is None:
            continue
        assert forest.depths[row].tolist() == [0, *tree.depths] + [0] * (width - count)
        expected = torch.eye(width, dtype=torch.bool)
        expected[:count, :count] = torch.from_numpy(tree.ancestors)
        assert torch.equal(forest.ancestors[row], expected)
