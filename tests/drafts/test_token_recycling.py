from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.drafts.registry import make_draft
from skipmap.drafts.shapes import shape
from skipmap.errors import InvalidInput
from skipmap.tree import ROOT, TokenTree, accept_greedy

UNKNOWN = [-1, -1]


def make(**params: object) -> Any:
    return make_draft("token_recycling", params)


def after(
    root: int, tree: TokenTree, rows: Sequence[Sequence[int]], accepted: tuple[int, ...] = ()
) -> StepOutcome:
    emitted = (*(tree.tokens[node] for node in accepted), rows[accepted[-1] + 1 if accepted else 0][0])
    return StepOutcome(tree, accepted, emitted, root=root, top_tokens=torch.tensor(rows))


def prefill(prompt: Sequence[int], rows: Sequence[Sequence[int]]) -> StepOutcome:
    return StepOutcome(TokenTree(), (), (rows[-1][0],), prompt=prompt, top_tokens=torch.tensor(rows))


def propose(draft: Any, state: Any, root: int) -> TokenTree:
    return draft.propose(state, DraftContext([0, root], remaining=100))


def test_defaults_are_spec_benchs():
    draft = make()
    assert (draft.tree_size, draft.needs) == (81, Needs(top_k=8, prompt=False))
    assert (draft.replayable, draft.remembers, draft.lossy, draft.fingerprint) == (False, True, False, None)


@pytest.mark.parametrize(
    ("params", "size"),
    [
        ({"max_nodes": 24}, 24),
        ({"max_depth": 1}, 9),
        ({"max_depth": 16}, 81),
        ({"width": 1}, 7),
        ({"width": 32}, 81),
        ({"tree": "samd_61"}, 61),
        ({"tree": "samd_61", "max_depth": 2, "max_nodes": 20}, 20),
    ],
)
def test_tree_is_cut_to_the_parameters(params, size):
    draft = make(**params)
    assert draft.tree_size == size
    state = draft.fresh()
    # Everybody knows 32 successors, so the tree is as full as it gets.
    everyone = list(range(40))
    state.learn(everyone, [[(token + step) % 40 for step in range(1, 33)] for token in everyone])
    tree = propose(draft, state, 0)
    assert len(tree) + 1 == size
    assert tree.depth <= draft.params.max_depth


def test_rows_that_a_step_showed_are_the_next_tree():
    draft = make(width=2, max_depth=2)
    state = draft.fresh()
    assert propose(draft, state, 5) == TokenTree()
    draft.observe(state, after(5, TokenTree(), [[6, 7]]))
    assert propose(draft, state, 6) == TokenTree()
    tree = propose(draft, state, 5)
    assert tree == TokenTree((6, 7), (ROOT, ROOT))
    # 7 is rejected and teaches all the same.
    draft.observe(state, after(5, tree, [[6, 8], [5, 7], [9, 5]], accepted=(0,)))
    assert propose(draft, state, 5) == TokenTree((6, 8, 5, 7), (ROOT, ROOT, 0, 0))
    assert propose(draft, state, 7) == TokenTree((9, 5, 6, 8), (ROOT, ROOT, 1, 1))


def test_of_equal_tokens_in_a_tree_the_last_node_counts():
    draft = make(width=2, max_depth=1)
    state = draft.fresh()
    tree = TokenTree((5, 6, 5), (ROOT, 0, 1))
    draft.observe(state, after(5, tree, [[1, 2], [3, 4], [5, 6], [7, 8]]))
    assert propose(draft, state, 5).tokens == (7, 8)
    assert propose(draft, state, 6).tokens == (5, 6)


def test_accepted_nodes_alone_teach_if_asked():
    draft = make(width=2, max_depth=1, update="accepted")
    assert draft.replayable
    state = draft.fresh()
    tree = TokenTree((6, 7, 8, 9, 6), (ROOT, ROOT, 0, 0, 3))
    # 6 stands in the accepted path and once more below the rejected end of it.
    rows = [[6, 1], [9, 2], UNKNOWN, UNKNOWN, [4, 3], UNKNOWN]
    draft.observe(state, after(5, tree, rows, accepted=(0, 3)))
    known = {token: propose(draft, state, token).tokens for token in range(10)}
    assert {token: row for token, row in known.items() if row} == {5: (6, 1), 6: (9, 2), 9: (4, 3)}


@pytest.mark.parametrize("update", ["all", "accepted"])
def test_prompt_teaches_only_if_asked(update):
    outcome = prefill([5, 6, 5, 7], [[6, 1], [5, 2], [7, 3], [8, 4]])
    draft = make(width=2, max_depth=1, from_prompt=True, update=update)
    assert draft.needs == Needs(top_k=2, prompt=True)
    state = draft.fresh()
    draft.observe(state, outcome)
    assert [propose(draft, state, token).tokens for token in (5, 6, 7, 8)] == [(7, 3), (5, 2), (8, 4), ()]
    draft = make(width=2, max_depth=1, update=update)
    state = draft.fresh()
    # Rows that nobody asked for are not looked at either.
    draft.observe(state, outcome)
    assert propose(draft, state, 5) == TokenTree()


def test_prefill_without_rows_is_fine_where_none_were_asked_for():
    draft = make()
    state = draft.fresh()
    draft.observe(state, StepOutcome(TokenTree(), (), (4,), prompt=[1, 2, 3]))
    assert propose(draft, state, 3) == TokenTree()


def test_missing_rows_are_an_error():
    draft = make()
    with pytest.raises(ValueError, match="top tokens"):
        draft.observe(draft.fresh(), StepOutcome(TokenTree(), (), (4,), root=3))


def test_memory_outlives_a_request_only_where_it_is_carried():
    draft = make(width=2, max_depth=1)
    first = draft.fresh()
    draft.observe(first, after(5, TokenTree(), [[6, 7]]))
    assert propose(draft, draft.fresh(), 5) == TokenTree()
    second = draft.fresh(first)
    assert propose(draft, second, 5).tokens == (6, 7)
    draft.observe(second, after(5, TokenTree(), [[8, 9]]))
    assert propose(draft, second, 5).tokens == (8, 9)
    assert propose(draft, first, 5).tokens == (6, 7)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"tree": "oak"}, r"draft\.params\.tree: .*known: .*recycling_81, samd_61 \(given: 'oak'\)"),
        ({"max_nodes": 1}, r"draft\.params\.max_nodes: .*greater than or equal to 2"),
        ({"max_nodes": 82}, r"draft\.params\.max_nodes: .*less than or equal to 81"),
        ({"width": 0}, r"draft\.params\.width"),
        ({"max_depth": 17}, r"draft\.params\.max_depth"),
        ({"update": "none"}, r"draft\.params\.update: .*'all' or 'accepted'"),
    ],
)
def test_bad_parameters_are_named(params, says):
    with pytest.raises(InvalidInput, match=says):
        make(**params)


# What follows holds for both methods that recycle.

Rows = Callable[[Sequence[int]], list[int]]


def made_up_target(seed: int, looks_back: int) -> Rows:
    """All 6 tokens in the order that the last ``looks_back`` ones decide."""

    def rank(text: Sequence[int]) -> list[int]:
        order = list(range(6))
        random.Random(f"{seed} {list(text[-looks_back:])}").shuffle(order)
        return order

    return rank


def score(target: Rows, text: Sequence[int], tree: TokenTree, top_k: int) -> list[list[int]]:
    """Rows of the root, which ends ``text``, and of the nodes."""
    texts = [list(text)]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        texts.append([*texts[parent + 1], token])
    return [target(each)[:top_k] for each in texts]


def greedy_steps(draft: Any, target: Rows, prompt: list[int], count: int) -> tuple[list[int], bool]:
    """Tokens that each step emits, and whether a twin that sees no row of rejected nodes drafts the same."""
    width = draft.needs.top_k
    state, twin = draft.fresh(), draft.fresh()
    text = [*prompt, target(prompt)[0]]
    rows = [target(prompt[: stop + 1])[:width] for stop in range(len(prompt))]
    for each in (state, twin):
        draft.observe(each, prefill(prompt, rows))
    sizes, same = [], True
    while (left := len(prompt) + count - len(text)) > 0:
        context = DraftContext(text, left)
        tree = draft.propose(state, context).truncate(left)
        same = same and draft.propose(twin, context).truncate(left) == tree
        assert len(tree) < draft.tree_size
        rows = score(target, text, tree, width)
        path, bonus = accept_greedy(tree, [row[0] for row in rows])
        emitted = (*(tree.tokens[node] for node in path), bonus)[:left]
        seen = {0, *(node + 1 for node in path)}
        masked = [row if place in seen else [-1] * len(row) for place, row in enumerate(rows)]
        for each, shown in ((state, rows), (twin, masked)):
            top = torch.tensor(shown)
            draft.observe(each, StepOutcome(tree, tuple(path), emitted, root=text[-1], top_tokens=top))
        text.extend(emitted)
        sizes.append(len(emitted))
    own = [*prompt]
    while len(own) < len(text):
        own.append(target(own)[0])
    assert text == own
    return sizes, same


@pytest.mark.parametrize("name", ["token_recycling", "samd"])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), looks_back=st.integers(1, 2), prompts=st.booleans())
def test_accepted_rows_alone_give_the_same_drafts_if_asked(name, seed, looks_back, prompts):
    draft = make_draft(name, {"width": 4, "update": "accepted", "from_prompt": prompts})
    assert draft.replayable
    _, same = greedy_steps(draft, made_up_target(seed, looks_back), [1, 2, 3, 4, 1, 2], 50)
    assert same


@pytest.mark.parametrize("name", ["token_recycling", "samd"])
@pytest.mark.parametrize("update", ["all", "accepted"])
def test_text_of_a_target_that_repeats_itself_is_drafted_in_full(name, update):
    draft = make_draft(name, {"update": update})
    # With one token of history 6 tokens are a cycle at most; once it is known the whole depth is accepted.
    sizes, _ = greedy_steps(draft, made_up_target(0, 1), [3, 1], 120)
    full = draft.params.max_depth + 1
    assert all(size >= full for size in sizes[7:-1])
    assert max(sizes[:2]) < full


@pytest.mark.parametrize("name", ["token_recycling", "samd"])
def test_rejected_rows_decide_drafts_otherwise(name):
    draft = make_draft(name, {"width": 4})
    assert not draft.replayable
    _, same = greedy_steps(draft, made_up_target(0, 2), [1, 2], 50)
    assert not same


def test_named_tree_is_the_default_in_full():
    draft = make()
    state = draft.fresh()
    state.learn(range(9), [[(token + step) % 9 for step in range(1, 9)] for token in range(9)])
    assert propose(draft, state, 0).parents == shape("recycling_81").parents
