from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.shapes import Shape, shape
from skipmap.drafts.successors import SuccessorMemory
from skipmap.tree import ROOT, TokenTree

# Two children of the root, two of the first, one of the second, one below the first of the first.
SHAPE = Shape((ROOT, ROOT, 0, 0, 1, 2), (0, 1, 0, 1, 0, 0))


def memory(**rows: list[int]) -> SuccessorMemory:
    """A memory of rows ``t<token>``."""
    made = SuccessorMemory()
    made.learn([int(name[1:]) for name in rows], list(rows.values()))
    return made


def test_later_rows_replace_earlier_ones():
    made = memory(t1=[2, 3], t2=[4, 5])
    made.learn([2, 7], [[6, 1], [1, 2]])
    assert [made.successors(token) for token in (1, 2, 7, 9)] == [(2, 3), (6, 1), (1, 2), ()]


def test_last_row_of_a_token_counts():
    made = SuccessorMemory()
    made.learn([5, 6, 5], [[1, 2], [3, 4], [2, 1]])
    assert made.successors(5) == (2, 1)


def test_every_token_needs_a_row():
    with pytest.raises(ValueError, match="zip"):
        SuccessorMemory().learn([1, 2], [[3]])


def test_full_tree_by_hand():
    made = memory(t1=[2, 3], t2=[4, 5], t3=[6, 7], t4=[8, 9])
    assert made.fill(SHAPE, 1) == TokenTree((2, 3, 4, 5, 6, 8), (ROOT, ROOT, 0, 0, 1, 2))


def test_unknown_tokens_have_no_children():
    # Nothing is known after 2, so the nodes below it are missing and 3's child moves up.
    made = memory(t1=[2, 3], t3=[6, 7])
    assert made.fill(SHAPE, 1) == TokenTree((2, 3, 6), (ROOT, ROOT, 1))
    assert made.fill(SHAPE, 2) == TokenTree()


def test_missing_ranks_have_no_node():
    made = memory(t1=[2], t2=[4], t4=[1])
    assert made.fill(SHAPE, 1) == TokenTree((2, 4, 1), (ROOT, 0, 1))


def test_tree_may_return_to_a_token_but_siblings_differ():
    made = memory(t1=[1, 2, 2], t2=[3, 3, 1])
    assert made.successors(2) == (3, 1)
    assert made.fill(SHAPE, 1) == TokenTree((1, 2, 1, 2, 3, 1), (ROOT, ROOT, 0, 0, 1, 2))


def test_copy_learns_apart():
    made = memory(t1=[2])
    other = made.copy()
    other.learn([1, 3], [[4], [5]])
    assert (made.successors(1), made.successors(3)) == ((2,), ())
    assert other.successors(1) == (4,)


@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=9)),
    st.sampled_from(["recycling_81", "samd_61"]),
    st.integers(2, 81),
    st.integers(1, 6),
    st.integers(0, 9),
)
def test_every_fill_has_the_nodes_that_the_ranks_lead_to(rows, name, size, depth, root):
    cut = shape(name).cut(size, depth)
    made = SuccessorMemory()
    made.learn(list(rows), list(rows.values()))
    tree = made.fill(cut, root)
    assert len(tree) < size
    assert tree.depth <= depth
    for nodes in tree.children.values():
        assert len({tree.tokens[node] for node in nodes}) == len(nodes)

    def follow(node: int) -> tuple[int, ...] | None:
        """Tokens from the root to a node of the shape, None where the memory ends."""
        if node == ROOT:
            return (root,)
        above = follow(cut.parents[node])
        successors = list(dict.fromkeys(rows.get(above[-1], []))) if above else []
        return (*above, successors[cut.ranks[node]]) if cut.ranks[node] < len(successors) else None

    texts: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        texts.append((*((root,) if parent == ROOT else texts[parent]), token))
    assert texts == [text for node in range(len(cut)) if (text := follow(node)) is not None]
