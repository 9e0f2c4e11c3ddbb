from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput
from skipmap.tree import ROOT, TokenTree, accept_greedy


def make(**params: object) -> Any:
    return make_draft("pia", params)


def begin(draft: Any, prompt: Sequence[int], first: int, previous: Any = None) -> Any:
    state = draft.fresh(previous)
    draft.observe(state, StepOutcome(TokenTree(), (), (first,), prompt=prompt))
    return state


def propose(prompt: Sequence[int], answer: Sequence[int], **params: object) -> TokenTree:
    """What is drafted after the answer's last token."""
    draft = make(**params)
    return draft.propose(begin(draft, prompt, answer[0]), DraftContext([*prompt, *answer], 100))


def test_defaults_are_the_published_ones():
    draft = make()
    assert draft.params.model_dump() == {
        "decoding_length": 64,
        "branch_length": 12,
        "max_query_length": 2,
        "output_weight": 1e-4,
        "max_nodes": 65536,
        "max_output_nodes": 512,
    }
    assert (draft.tree_size, draft.needs, draft.fingerprint) == (64, Needs(), None)
    assert (draft.replayable, draft.remembers, draft.lossy) == (True, True, False)
    assert make(decoding_length=5).tree_size == 5


@pytest.mark.parametrize(
    "params",
    [{"decoding_length": 1}, {"branch_length": 0}, {"output_weight": 1.5}, {"max_nodes": 0}, {"mode": "one"}],
)
def test_bad_parameters_are_refused(params):
    (name,) = params
    with pytest.raises(InvalidInput, match=rf"^draft\.params\.{name}: "):
        make(**params)


def test_nothing_repeats_nothing_is_drafted():
    assert propose([1, 2, 3], [4]) == TokenTree()
    assert propose([1], [1, 2]) == TokenTree()


def test_enough_after_the_longest_suffix():
    # 1 2 was followed by 7 8 and by 7 0, three nodes; that 9 followed 2 is not asked for.
    tree = propose([2, 9, 1, 2, 7, 8, 1, 2, 7, 0, 1], [2], branch_length=3)
    assert tree == TokenTree((7, 8, 0), (ROOT, 0, 0))


def test_too_few_after_the_longest_suffix_and_the_shorter_one_adds_its_own():
    # 1 2 was followed by 7 8 alone, two nodes where three are wanted; 2 also by 9 0 1, which came first.
    prompt = [2, 9, 0, 1, 2, 7, 8, 0, 1]
    tree = propose(prompt, [2], branch_length=3)
    assert tree == TokenTree((7, 8, 0, 9, 0, 1), (ROOT, 0, 1, ROOT, 3, 4))
    assert propose(prompt, [2], branch_length=3, max_query_length=1) == TokenTree(
        (9, 0, 1, 7, 8, 0), (ROOT, 0, 1, ROOT, 3, 4)
    )
    assert propose(prompt, [2], branch_length=2) == TokenTree((7, 8, 9, 0), (ROOT, 0, ROOT, 2))


def test_unknown_longer_suffix_leaves_the_word_to_the_shorter_one():
    assert propose([2, 7, 8, 5], [2]).tokens == (7, 8, 5, 2)


def test_suffixes_may_be_longer():
    prompt = [1, 2, 3, 7, 0, 2, 3, 8, 0, 1, 2]
    assert propose(prompt, [3], branch_length=4, max_query_length=3).tokens[0] == 7
    assert propose([0, 2, 3, 8, *prompt], [3], branch_length=4, max_query_length=2).tokens[0] == 8


@pytest.mark.parametrize(
    ("prompt", "answer", "weight", "drafted"),
    [
        ([2, 5, 2, 6, 2, 6], [2], 1e-4, (6, 5)),
        ([2, 5, 2, 6], [2], 1e-4, (5, 6)),
        ([2, 5, 2, 6], [2, 6, 2], 1e-4, (6, 5)),
        ([2, 5, 2, 6], [2, 6, 2], 0, (5, 6)),
        ([2, 5, 2, 5, 2, 6], [2, 6, 2, 6, 2], 1e-4, (5, 6)),
        ([2, 5, 2, 5, 2, 6], [2, 6, 2, 6, 2], 0.6, (6, 5)),
    ],
    ids=[
        "more often in the prompt",
        "inserted first",
        "an answer decides between equals",
        "unless it has no weight",
        "the prompt outweighs answers",
        "unless they weigh more",
    ],
)
def test_siblings_stand_in_the_order_of_their_worth(prompt, answer, weight, drafted):
    tree = propose(prompt, answer, branch_length=1, output_weight=weight)
    assert tree.tokens == drafted


def test_half_of_the_positions_are_the_answers():
    prompt = [2, 10, 2, 11, 2, 12, 2, 13, 2, 14]
    answer = [2, 20, 2, 21, 2, 22, 2]
    small = {"decoding_length": 5, "branch_length": 1}
    assert propose(prompt, answer, **small).tokens == (10, 11, 20, 21)
    assert propose(prompt, [*answer, 22, 2], **small).tokens == (10, 11, 22, 20)
    assert propose(prompt, [2, 20, 2], **small).tokens == (10, 11, 12, 20)
    assert propose(prompt, [2], **small).tokens == (10, 11, 12, 13)
    assert propose([0], answer, **small).tokens == (20, 21, 22)
    # Among the answers' own half what they said most often comes first, whatever the prompt says of it.
    tree = propose([2, 10, 2, 11], [2, 10, 2, 20, 2, 20, 2], decoding_length=3, branch_length=1)
    assert tree.tokens == (10, 20)


def test_token_of_an_answer_brings_the_prompt_tokens_before_it():
    prompt = [2, 7, 2, 8, 2, 9, 2, 5]
    tree = propose(prompt, [6, 2], decoding_length=4, branch_length=2)
    assert tree == TokenTree((7, 5, 6), (ROOT, ROOT, 1))


def test_draft_stops_at_the_decoding_length():
    prompt = [1, *range(10, 40), 1]
    assert propose(prompt, [10], decoding_length=6) == TokenTree.chain([11, 12, 13, 14, 15])
    assert propose(prompt, [10]) == TokenTree.chain(range(11, 22 + 1))


def test_answers_outlive_their_request_where_state_is_carried():
    draft = make()
    state = begin(draft, [1, 2, 3], 7)
    tokens = [1, 2, 3, 7]
    draft.propose(state, DraftContext(tokens, 100))
    # What the last step emitted is never proposed after.
    draft.observe(state, StepOutcome(TokenTree(), (), (8, 9), root=7))
    for _ in range(2):
        next_state = begin(draft, [5], 7, state)
        assert draft.propose(next_state, DraftContext([5, 7], 100)) == TokenTree.chain([8, 9])
    assert draft.propose(begin(draft, [1], 2, state), DraftContext([1, 2], 100)) == TokenTree()
    assert draft.propose(begin(draft, [5], 7), DraftContext([5, 7], 100)) == TokenTree()


def test_carried_state_can_be_carried_on():
    draft = make(branch_length=3)
    state = None
    for answer in ([7, 8], [7, 9], [7, 9]):
        state = begin(draft, [5], answer[0], state)
        draft.propose(state, DraftContext([5, *answer], 100))
    state = begin(draft, [5], 7, state)
    assert draft.propose(state, DraftContext([5, 7], 100)) == TokenTree((9, 8), (ROOT, ROOT))


def test_memory_stays_below_its_bounds():
    draft = make(max_nodes=50, branch_length=4)
    state = begin(draft, range(100), 100)
    draft.propose(state, DraftContext(range(101), 100))
    assert 0 < state.forest.nodes <= 50


def simulate(
    draft: Any, prompt: Sequence[int], after: Callable[[Sequence[int]], int], limit: int
) -> tuple[list[int], list[int]]:
    """Answer of a made-up target, and how many tokens each verification step emitted."""
    tokens, steps = [*prompt, after(prompt)], []
    state = begin(draft, prompt, tokens[-1])
    while remaining := len(prompt) + limit - len(tokens):
        tree = draft.propose(state, DraftContext(tokens, remaining)).truncate(remaining)
        assert len(tree) < draft.tree_size
        paths = [[]]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            paths.append([*paths[parent + 1], token])
        path, bonus = accept_greedy(tree, [after([*tokens, *p]) for p in paths])
        emitted = (*(tree.tokens[node] for node in path), bonus)[:remaining]
        draft.observe(state, StepOutcome(tree, tuple(path), emitted, root=tokens[-1]))
        tokens = [*tokens, *emitted]
        steps.append(len(emitted))
    return tokens[len(prompt) :], steps


def test_periodic_text_needs_few_steps():
    answer, steps = simulate(make(), [0], lambda tokens: (tokens[-1] + 1) % 5, 61)
    assert answer == [n % 5 for n in range(1, 62)]
    # The first round is new; then the draft gets longer up to 12 tokens, and the bonus comes on top.
    assert steps == [1, 1, 1, 1, 6, 11, 13, 13, 13]


@given(
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.integers(2, 9),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_text_is_the_targets_own(table, prompt, decoding_length, branch_length, query):
    def after(tokens: Sequence[int]) -> int:
        return table[4 * tokens[-2] + tokens[-1]] if len(tokens) > 1 else table[tokens[-1]]

    plain = [*prompt]
    for _ in range(30):
        plain.append(after(plain))
    draft = make(
        decoding_length=decoding_length, branch_length=branch_length, max_query_length=query, max_nodes=40
    )
    assert simulate(draft, prompt, after, 30)[0] == plain[len(prompt) :]


texts = st.lists(st.integers(0, 3), min_size=1, max_size=40)


@given(texts, texts, st.lists(st.integers(1, 79), max_size=5), st.integers(2, 12))
def test_proposals_do_not_depend_on_when_they_were_asked_for(prompt, answer, stops, decoding_length):
    params = {"decoding_length": decoding_length, "branch_length": 3, "max_nodes": 30, "max_output_nodes": 8}
    draft = make(**params)
    state = begin(draft, prompt, answer[0])
    for stop in [*sorted(stop for stop in stops if stop < len(answer)), len(answer)]:
        asked = draft.propose(state, DraftContext([*prompt, *answer[:stop]], 100))
        assert asked == propose(prompt, answer[:stop], **params)


@given(texts, st.integers(2, 12), st.integers(1, 4))
def test_prompt_alone_gives_its_most_frequent_continuations(prompt, decoding_length, branch_length):
    draft = make(decoding_length=decoding_length, branch_length=branch_length, max_query_length=1)
    tree = draft.propose(begin(draft, prompt, 0), DraftContext(prompt, 100))
    # Path -> minus its occurrences, then when the first one was complete; of branches that grow together the older.
    seen: dict[tuple[int, ...], tuple[int, int, int]] = {}
    for start in (i for i, token in enumerate(prompt) if token == prompt[-1]):
        for stop in range(start + 2, min(start + 1 + branch_length, len(prompt)) + 1):
            path = tuple(prompt[start + 1 : stop])
            known = seen.get(path, (0, stop, start))
            seen[path] = (known[0] - 1, *known[1:])
    ranked = sorted(seen, key=lambda path: seen[path])
    assert set(paths_of(tree)) == set(ranked[: decoding_length - 1])
    assert [path for path in paths_of(tree) if len(path) == 1] == [
        path for path in ranked[: decoding_length - 1] if len(path) == 1
    ]


@given(texts, texts, st.integers(2, 12))
def test_half_of_the_tree_comes_from_answers_where_they_offer_as_much(prompt, answer, decoding_length):
    def draft(positions: int) -> list[tuple[int, ...]]:
        tree = propose(prompt, answer, decoding_length=positions, branch_length=3, max_query_length=1)
        return paths_of(tree)

    def in_answer(path: tuple[int, ...]) -> bool:
        return any(
            (text[i - 1], *text[i : i + len(path)]) == (text[-1], *path) and i + len(path) > len(prompt)
            for i in range(1, len(text))
        )

    text = (*prompt, *answer)
    drafted, known = draft(decoding_length), draft(512)
    assert len(drafted) == len(set(drafted)) == min(decoding_length - 1, len(known))
    assert set(drafted) <= set(known)
    theirs = [path for path in known if in_answer(path)]
    if len(set(theirs) & set(drafted)) < min(decoding_length // 2, len(theirs)):
        # Their parents in the prompt have taken the rest.
        assert all(any(longer[: len(path)] == path for longer in theirs) for path in drafted)


def paths_of(tree: TokenTree) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(paths[parent] if parent != ROOT else ()), token))
    return paths
