from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.trie import TrieForest, TrieNode

Counts = dict[tuple[int, ...], tuple[float, float]]
texts = st.integers(1, 4).flatmap(lambda top: st.lists(st.integers(0, top), max_size=40))


def grow(
    forest: TrieForest | None, prompt: Sequence[int], answer: Sequence[int] = (), **limits: int
) -> TrieForest:
    forest = forest or TrieForest(
        **{"branch_length": 3, "max_nodes": 1000, "max_output_nodes": 1000} | limits
    )
    for token in prompt:
        forest.add(token, output=False)
    for token in answer:
        forest.add(token, output=True)
    return forest


def walk(node: TrieNode, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], TrieNode]]:
    for token, child in node.children.items():
        yield (*path, token), child
        yield from walk(child, (*path, token))


def found(forest: TrieForest) -> dict[tuple[int, ...], TrieNode]:
    """Every node by the tokens that lead to it, first token included."""
    tops = {token: forest.find([token]) for token in range(10)}
    return {path: node for token, top in tops.items() if top for path, node in walk(top, (token,))}


def counts(forest: TrieForest) -> Counts:
    return {path: (node.prompt, node.output) for path, node in found(forest).items()}


def test_each_position_opens_a_branch_that_later_tokens_lengthen():
    assert counts(grow(None, [1, 2, 1, 2, 3], branch_length=2)) == {
        (1, 2): (2, 0),
        (1, 2, 1): (1, 0),
        (1, 2, 3): (1, 0),
        (2, 1): (1, 0),
        (2, 1, 2): (1, 0),
        (2, 3): (1, 0),
    }


def test_branch_goes_on_from_the_prompt_into_the_answer():
    forest = grow(None, [1, 2], [3, 4, 2, 3], branch_length=2)
    assert counts(forest) == {
        (1, 2): (1, 0),
        (1, 2, 3): (0, 1),
        (2, 3): (0, 2),
        (2, 3, 4): (0, 1),
        (3, 4): (0, 1),
        (3, 4, 2): (0, 1),
        (4, 2): (0, 1),
        (4, 2, 3): (0, 1),
    }
    assert forest.nodes == 8


def test_repeated_token_counts_once_in_each_branch():
    assert counts(grow(None, [7, 7, 7, 7], branch_length=2)) == {(7, 7): (3, 0), (7, 7, 7): (2, 0)}


def test_find_leads_to_what_followed():
    forest = grow(None, [1, 2, 3, 1, 2, 4])
    assert list(forest.find([1]).children) == [2]
    assert list(forest.find([1, 2]).children) == [3, 4]
    assert forest.find([1, 3]) is None
    assert forest.find([9, 1]) is None
    assert forest.find([4]).children == {}


def test_output_is_known_above_where_it_is_counted():
    nodes = found(grow(None, [1, 2, 5], [3]))
    assert nodes[1, 2].has_output
    assert nodes[1, 2, 5].has_output
    assert not grow(None, [1, 2, 5]).find([1]).has_output


def test_overflow_of_the_forest_halves_counts_and_removes_the_rest():
    forest = grow(None, [1, 2, 1, 2, 1], branch_length=2, max_nodes=5)
    assert counts(forest) == {(1, 2): (2, 0), (1, 2, 1): (2, 0), (2, 1): (2, 0), (2, 1, 2): (1, 0)}
    # 1 3 and 2 1 3 make six.
    grow(forest, [3])
    assert counts(forest) == {(1, 2): (1, 0), (1, 2, 1): (1, 0), (2, 1): (1, 0)}
    assert forest.nodes == 3
    # The open branches are closed, and the token that brought the overflow opens the next.
    grow(forest, [4])
    assert counts(forest) == {(1, 2): (1, 0), (1, 2, 1): (1, 0), (2, 1): (1, 0), (3, 4): (1, 0)}


def test_output_below_a_node_that_lost_its_own_stays_known():
    forest = grow(None, [1, 2, 1, 2, 1, 2], [3, 1, 2, 3], branch_length=2, max_nodes=9)
    assert (counts(forest)[1, 2], counts(forest)[1, 2, 3]) == ((3, 1), (0, 2))
    grow(forest, [], [4])
    assert (counts(forest)[1, 2], counts(forest)[1, 2, 3]) == ((1.5, 0), (0, 1))
    assert_sound(forest)


def test_overflow_of_a_tree_takes_output_counts_alone_and_spares_the_other_trees():
    forest = grow(None, [1, 2], branch_length=1, max_output_nodes=2)
    grow(forest, [], [1, 2, 1, 2, 1, 2, 5, 6, 5, 6, 5, 1, 3, 1])
    before = counts(forest)
    assert (before[1, 2], before[1, 3]) == ((1, 3), (0, 1))
    grow(forest, [], [4])
    after = counts(forest)
    assert after[1, 2] == (1, 1.5)
    assert before.keys() - after.keys() == {(1, 3)}
    assert {path for path in after if after[path] != before[path]} == {(1, 2)}


def test_carried_forest_keeps_what_answers_counted():
    forest = grow(None, [1, 2, 3, 1], [2, 4, 1, 2, 4])
    kept = forest.carried()
    # 3 1 2 4 and 1 2 4 hung on prompt tokens in part; 2 4 1 2, 4 1 2 4 and the second 1 2 4 are the answer's own.
    assert counts(kept) == {
        (1, 2): (0, 2),
        (1, 2, 4): (0, 2),
        (1, 2, 4, 1): (0, 1),
        (2, 4): (0, 2),
        (2, 4, 1): (0, 1),
        (2, 4, 1, 2): (0, 1),
        (4, 1): (0, 1),
        (4, 1, 2): (0, 1),
        (4, 1, 2, 4): (0, 1),
    }
    assert kept.find([3]) is None


def test_carried_forest_is_a_copy_with_nothing_open():
    forest = grow(None, [], [1, 2, 3])
    before = counts(forest)
    kept = forest.carried()
    grow(kept, [1, 2, 4], [5])
    assert counts(forest) == before
    assert counts(kept) == before | {
        (1, 2): (1, 1),
        (1, 2, 4): (1, 0),
        (1, 2, 4, 5): (0, 1),
        (2, 4): (1, 0),
        (2, 4, 5): (0, 1),
        (4, 5): (0, 1),
    }


def test_what_hung_on_the_prompt_alone_goes_with_it():
    # 2 3 was counted in an answer once on its own and once as the end of 1 2 3, of which 1 2 is the prompt's.
    forest = grow(None, [1, 2], [3, 9, 9, 9, 1, 2])
    assert counts(forest)[1, 2] == (1, 1)
    assert counts(forest)[1, 2, 3] == (0, 1)
    grow(forest, [], [3])
    assert counts(forest)[1, 2, 3] == (0, 2)
    assert counts(forest.carried())[1, 2, 3] == (0, 1)


@given(texts, texts, st.integers(1, 5))
def test_counts_are_those_of_the_text(prompt, answer, length):
    text = [*prompt, *answer]
    expected: Counts = {}
    for start in range(len(text)):
        for stop in range(start + 2, min(start + 1 + length, len(text)) + 1):
            path = tuple(text[start:stop])
            old = expected.get(path, (0, 0))
            from_prompt = stop <= len(prompt)
            expected[path] = (old[0] + from_prompt, old[1] + (not from_prompt))
    forest = grow(None, prompt, answer, branch_length=length)
    assert counts(forest) == expected
    assert forest.nodes == len(expected)


@given(
    st.lists(st.tuples(texts, texts), max_size=3),
    st.integers(1, 4),
    st.integers(2, 30),
    st.integers(1, 8),
)
def test_no_node_counts_more_than_its_parent_whatever_was_cut(requests, length, nodes, output_nodes):
    limits = {"branch_length": length, "max_nodes": nodes, "max_output_nodes": output_nodes}
    forest = grow(None, [], **limits)
    for prompt, answer in requests:
        for token, output in [*((t, False) for t in prompt), *((t, True) for t in answer)]:
            forest.add(token, output=output)
            assert_sound(forest)
        forest = forest.carried()
        assert_sound(forest)
        assert not any(node.prompt for node in found(forest).values())


def assert_sound(forest: TrieForest) -> None:
    every = found(forest)
    assert forest.nodes == len(every) <= forest.max_nodes
    for first in range(10):
        in_tree = sum(node.output > 0 for path, node in every.items() if path[0] == first)
        assert in_tree <= forest.max_output_nodes
    for path, node in every.items():
        assert node.prompt + node.output > 0
        below = [child for other, child in every.items() if other[: len(path)] == path]
        assert node.has_output == any(child.output for child in below)
        if len(path) > 2:
            parent = every[path[:-1]]
            assert node.prompt <= parent.prompt
            assert node.prompt + node.output <= parent.prompt + parent.output
            assert node.serial > parent.serial
