from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.base import DraftContext
from skipmap.drafts.prompt_lookup import PromptLookup, PromptLookupParams


def propose(tokens: Sequence[int], **params: int) -> tuple[int, ...]:
    draft = PromptLookup(PromptLookupParams(**params))
    tree = draft.propose(draft.fresh(), DraftContext(tokens, remaining=100))
    assert tree.is_chain
    return tree.tokens


@pytest.mark.parametrize(
    ("tokens", "drafted"),
    [
        ([1, 2, 3, 4, 9, 2, 3], (4, 9, 2, 3)),
        ([7, 1, 7, 2, 7], (1, 7, 2, 7)),
        ([7, 1, 5, 7, 2, 5, 7], (2, 5, 7)),
        ([4, 1, 2, 3, 8, 2, 3, 9, 1, 2, 3], (8, 2, 3, 9, 1, 2, 3)),
        ([1, 2, 3], ()),
        ([5], ()),
        ([5, 5], (5,)),
        ([5, 5, 5], (5,)),
    ],
    ids=[
        "two tokens back",
        "the earliest occurrence",
        "the longer n-gram before the earlier shorter one",
        "three tokens",
        "nothing repeats",
        "no match with itself",
        "the shortest repetition",
        "the longest suffix continues nearest",
    ],
)
def test_by_hand(tokens, drafted):
    assert propose(tokens) == drafted


def test_drafts_at_most_num_tokens():
    assert propose([1, *range(10, 40), 1], num_tokens=4) == (10, 11, 12, 13)
    assert len(propose([1, *range(10, 40), 1])) == 10
    assert PromptLookup(PromptLookupParams(num_tokens=4)).tree_size == 5


def test_bounds_on_the_n_gram():
    tokens = [1, 2, 3, 9, 8, 3, 7, 1, 2, 3]
    assert propose(tokens, num_tokens=1) == (9,)
    assert propose([3, 7, 2, 3, 8, 1, 2, 3], max_ngram=1, num_tokens=1) == (7,)
    assert propose([3, 7, 2, 3, 8, 1, 2, 3], max_ngram=2, num_tokens=1) == (8,)
    assert propose([3, 7, 3], min_ngram=2) == ()


def brute_force(tokens: Sequence[int], params: PromptLookupParams) -> tuple[int, ...]:
    for n in range(params.max_ngram, params.min_ngram - 1, -1):
        for start in range(len(tokens) - n):
            if n < len(tokens) and tokens[start : start + n] == tokens[-n:]:
                return tuple(tokens[start + n :][: params.num_tokens])
    return ()


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.integers(1, 39), max_size=5),
    st.integers(1, 4).flatmap(lambda low: st.tuples(st.just(low), st.integers(low, 5))),
    st.integers(1, 6),
)
def test_growing_text_gives_what_a_search_from_the_start_gives(tokens, stops, bounds, num_tokens):
    params = PromptLookupParams(min_ngram=bounds[0], max_ngram=bounds[1], num_tokens=num_tokens)
    draft = PromptLookup(params)
    state = draft.fresh()
    for stop in [*sorted(stops), len(tokens)]:
        text = tokens[:stop]
        assert draft.propose(state, DraftContext(text, 100)).tokens == brute_force(text, params)
