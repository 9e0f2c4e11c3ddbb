from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.drafts.ngram_pool import NgramPool
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput
from skipmap.tree import ROOT, TokenTree, accept_greedy

Target = Callable[[Sequence[int]], int]


def make(**params: object) -> Any:
    return make_draft("lookahead", params)


def one_more(tokens: Sequence[int]) -> int:
    """A target that counts."""
    return tokens[-1] + 1


def choices(tree: TokenTree, tokens: Sequence[int], target: Target) -> list[int]:
    """What a made-up target says after the root, the last of ``tokens``, and after each node."""
    paths: list[list[int]] = [[]]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append([*paths[parent + 1], token])
    return [target([*tokens, *path]) for path in paths]


def step(
    draft: Any, state: Any, tokens: Sequence[int], target: Target = one_more, remaining: int = 100
) -> tuple[TokenTree, tuple[int, ...]]:
    """A verification step: what was drafted after the last token and what the step emitted."""
    tree = draft.propose(state, DraftContext(tokens, remaining)).truncate(remaining)
    assert len(set(zip(tree.parents, tree.tokens, strict=True))) == len(tree) < draft.tree_size
    said = choices(tree, tokens, target)
    path, bonus = accept_greedy(tree, said)
    emitted = (*(tree.tokens[node] for node in path), bonus)[:remaining]
    top = torch.tensor(said).unsqueeze(-1)
    draft.observe(state, StepOutcome(tree, tuple(path), emitted, root=tokens[-1], top_tokens=top))
    return tree, emitted


def begin(draft: Any, prompt: Sequence[int], first: int) -> Any:
    state = draft.fresh()
    draft.observe(state, StepOutcome(TokenTree(), (), (first,), prompt=prompt))
    return state


def simulate(draft: Any, prompt: Sequence[int], target: Target, limit: int) -> tuple[list[int], list[int]]:
    """Answer of a made-up target, and how many tokens each verification step emitted."""
    tokens, steps = [*prompt, target(prompt)], []
    state = begin(draft, prompt, tokens[-1])
    while remaining := len(prompt) + limit - len(tokens):
        _, emitted = step(draft, state, tokens, target, remaining)
        tokens = [*tokens, *emitted]
        steps.append(len(emitted))
    return tokens[len(prompt) :], steps


def test_defaults_are_spec_benchs():
    draft = make()
    assert draft.params.model_dump() == {"level": 5, "window": 7, "guesses": 7, "pool_from_prompt": False}
    assert (draft.needs, draft.fingerprint) == (Needs(top_k=1), None)
    assert (draft.replayable, draft.remembers, draft.lossy) == (False, False, False)


@pytest.mark.parametrize(
    ("params", "size"),
    [
        # Root, 4 rows of 7, 7 guesses of 4.
        ({}, 1 + 28 + 28),
        ({"level": 2, "window": 3, "guesses": 2}, 1 + 3 + 2),
        ({"level": 3, "window": 2, "guesses": 1}, 1 + 4 + 2),
        # One column at last, but before that a row of 4, two of 3, three of 2.
        ({"level": 5, "window": 1, "guesses": 1}, 1 + 4 + 4),
        ({"level": 5, "window": 1, "guesses": 1, "pool_from_prompt": True}, 1 + 6 + 4),
        # Four rows of 4 are more than seven of 1 with the guesses.
        ({"level": 8, "window": 1, "guesses": 1}, 1 + 16),
    ],
)
def test_tree_size_by_hand(params, size):
    assert make(**params).tree_size == size


@pytest.mark.parametrize("params", [{"level": 1}, {"window": 0}, {"guesses": 0}, {"eager": True}])
def test_bad_parameters_are_refused(params):
    (name,) = params
    with pytest.raises(InvalidInput, match=rf"^draft\.params\.{name}: "):
        make(**params)


def test_window_starts_with_tokens_of_the_prompt():
    draft = make()
    prompt = list(range(100, 140))

    def start(seed: int) -> TokenTree:
        return draft.propose(begin(draft, prompt, 7), DraftContext([*prompt, 7], 100, seed=seed))

    tree = start(1)
    # After the three steps that fill the other rows, 7 columns are left of 10.
    assert len(tree) == 10
    assert tree.is_chain
    assert set(tree.tokens) <= set(prompt)
    assert tree == start(1)
    assert tree != start(2)
    assert draft.propose(begin(draft, [4], 5), DraftContext([4, 5], 100)) == TokenTree.chain([4] * 10)


def test_first_steps_fill_the_window():
    draft = make(level=4, window=2, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[10, 20, 30, 40]]
    tree, emitted = step(draft, state, [50])
    assert tree == TokenTree.chain([10, 20, 30, 40])
    assert emitted == (51,)
    # The first column belonged to the position that 51 has taken.
    assert state.rows == [[20, 30, 40], [21, 31, 41]]
    tree, _ = step(draft, state, [50, 51])
    assert tree == TokenTree((20, 30, 40, 21, 31, 41), (ROOT, 0, 1, 0, 1, 2))
    assert state.rows == [[30, 40], [31, 41], [32, 42]]
    assert state.pool.after(20) == []


def test_full_window_yields_one_n_gram_a_column_and_moves_up():
    draft = make(level=3, window=2, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[10, 30], [61, 81]]
    tree, emitted = step(draft, state, [50])
    #  50 - 10 - 30
    #       |    |
    #       61   81
    assert tree == TokenTree((10, 30, 61, 81), (ROOT, 0, 0, 1))
    assert emitted == (51,)
    assert state.rows == [[61, 81], [62, 82]]
    assert state.pool.after(10) == [(61, 62)]
    assert state.pool.after(30) == [(81, 82)]
    tree, _ = step(draft, state, [50, 51])
    assert tree == TokenTree((61, 81, 62, 82), (ROOT, 0, 0, 1))
    assert state.rows == [[62, 82], [63, 83]]
    assert state.pool.after(61) == [(62, 63)]
    assert state.pool.after(81) == [(82, 83)]


def test_bigrams_need_one_row():
    draft = make(level=2, window=2, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[10, 30]]
    step(draft, state, [50])
    assert state.rows == [[11, 31]]
    assert (state.pool.after(10), state.pool.after(30)) == ([(11,)], [(31,)])


def test_window_moves_by_one_column_where_more_is_emitted():
    draft = make(level=3, window=2, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[51, 30], [52, 81]]
    _, emitted = step(draft, state, [50])
    # Cells that the target agrees with are accepted.
    assert emitted == (51, 52, 53)
    assert state.rows == [[52, 81], [53, 82]]


def test_guesses_hang_below_the_root_whose_n_grams_they_are():
    draft = make(level=3, window=1, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[1], [2]]
    state.pool.add((50, 60, 70))
    state.pool.add((50, 60, 71))
    state.pool.add((51, 99, 99))
    tree = draft.propose(state, DraftContext([50], 100))
    # Last seen first; both begin with 60, which is one node.
    assert tree == TokenTree((60, 71, 70, 1, 2), (ROOT, 0, 0, ROOT, 3))


def test_cell_and_guess_with_the_same_past_are_one_node():
    draft = make(level=3, window=2, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[60, 5], [70, 6]]
    state.pool.add((50, 60, 70))
    tree, _ = step(draft, state, [50])
    assert tree == TokenTree((60, 70, 5, 6), (ROOT, 0, 0, 2))
    assert state.rows == [[70, 6], [71, 7]]
    assert state.pool.after(60) == [(70, 71)]
    assert state.pool.after(5) == [(6, 7)]


def test_cells_with_the_same_past_are_one_node():
    draft = make(level=3, window=3, guesses=3)
    state = begin(draft, [9], 50)
    # Below the first cell, row 0 goes on with 5 and row 1 has 5 as well.
    state.rows = [[60, 5, 8], [5, 6, 7]]
    tree, _ = step(draft, state, [50])
    assert tree == TokenTree((60, 5, 8, 6, 7), (ROOT, 0, 1, 1, 2))
    assert state.rows == [[5, 6, 7], [6, 7, 8]]


def test_whole_n_gram_can_be_accepted():
    draft = make()
    state = begin(draft, [0], 1)
    state.pool.add((1, 2, 3, 4, 5))
    state.pool.add((1, 2, 3, 9, 9))
    tree = draft.propose(state, DraftContext([0, 1], 100))
    path, bonus = accept_greedy(tree, choices(tree, [0, 1], one_more))
    assert [tree.tokens[node] for node in path] == [2, 3, 4, 5]
    assert bonus == 6


@pytest.mark.parametrize("remaining", [1, 2])
def test_window_stays_where_the_end_of_the_answer_cuts_it(remaining):
    draft = make(level=3, window=2, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[10, 30], [61, 81]]
    tree, _ = step(draft, state, [50], remaining=remaining)
    assert len(tree) < 4
    assert state.rows == [[10, 30], [61, 81]]
    assert state.pool.after(10) == []


def test_cut_tree_is_read_by_its_own_node_numbers():
    draft = make(level=3, window=1, guesses=3)
    state = begin(draft, [9], 50)
    state.rows = [[10], [61]]
    state.pool.add((50, 2, 3))
    deep = draft.propose(state, DraftContext([50], 100))
    assert deep == TokenTree((2, 3, 10, 61), (ROOT, 0, ROOT, 2))
    # As if the guess were cut and the window were not.
    outcome = StepOutcome(
        TokenTree((10, 61), (ROOT, 0)), (), (51,), root=50, top_tokens=torch.tensor([[51], [11], [62]])
    )
    draft.observe(state, outcome)
    assert state.rows == [[61], [62]]
    assert state.pool.after(10) == [(61, 62)]


def test_step_without_the_targets_choices_is_an_error():
    draft = make()
    with pytest.raises(ValueError, match="lookahead needs the top token"):
        draft.observe(begin(draft, [1], 2), StepOutcome(TokenTree(), (), (3,), root=2))


def test_text_enters_the_pool_on_request_alone():
    prompt = [1, 2, 3, 1, 2, 4]
    plain = make(level=3)
    assert begin(plain, prompt, 5).pool.after(1) == []
    draft = make(level=3, pool_from_prompt=True)
    state = begin(draft, prompt, 5)
    assert state.pool.after(1) == [(2, 4), (2, 3)]
    assert state.pool.after(2) == [(4, 5), (3, 1)]
    assert state.pool.after(4) == []
    draft.propose(state, DraftContext([*prompt, 5], 100))
    top = torch.tensor([[6]])
    draft.observe(state, StepOutcome(TokenTree(), (), (6, 7, 8), root=5, top_tokens=top))
    assert state.pool.after(4) == [(5, 6)]
    assert state.pool.after(5) == [(6, 7)]
    assert state.pool.after(6) == [(7, 8)]
    assert state.pool.after(7) == []


def test_states_of_two_requests_are_apart():
    draft = make(level=2)
    state = begin(draft, [1, 2], 3)
    step(draft, state, [1, 2, 3])
    assert draft.fresh().rows == []
    assert draft.fresh(state).pool.after(1) == []


def test_pool_keeps_the_last_distinct_n_grams():
    pool = NgramPool(2)
    pool.add((1, 2, 3))
    pool.add((1, 4, 5))
    assert pool.after(1) == [(4, 5), (2, 3)]
    # Seen again: now 4 5 is the one not seen for longest.
    pool.add((1, 2, 3))
    assert pool.after(1) == [(2, 3), (4, 5)]
    pool.add((1, 6, 7))
    assert pool.after(1) == [(6, 7), (2, 3)]
    assert pool.after(2) == []


def test_pool_reads_the_n_grams_of_a_text():
    pool = NgramPool(5)
    pool.add_text([1, 2, 3, 1, 4], 3)
    assert pool.after(1) == [(2, 3)]
    assert pool.after(2) == [(3, 1)]
    assert pool.after(3) == [(1, 4)]
    pool.add_text([8, 9], 3)
    assert pool.after(8) == []


@pytest.mark.parametrize("seed", range(3))
def test_periodic_text_needs_few_steps(seed):
    def target(tokens: Sequence[int]) -> int:
        return (tokens[-1] + 1) % 5

    answer, steps = simulate(make(), [seed, 0], target, 61)
    assert answer == [n % 5 for n in range(1, 62)]
    assert len(steps) < 20
    assert max(steps) >= 5


@given(
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.integers(2, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)
def test_text_is_the_targets_own(table, prompt, level, window, guesses, from_prompt):
    def target(tokens: Sequence[int]) -> int:
        return table[4 * tokens[-2] + tokens[-1]] if len(tokens) > 1 else table[tokens[-1]]

    plain = [*prompt]
    for _ in range(30):
        plain.append(target(plain))
    draft = make(level=level, window=window, guesses=guesses, pool_from_prompt=from_prompt)
    assert simulate(draft, prompt, target, 30)[0] == plain[len(prompt) :]
