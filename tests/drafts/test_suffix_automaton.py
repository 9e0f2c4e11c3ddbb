from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.suffix_automaton import START, SuffixAutomaton

texts = st.integers(1, 4).flatmap(lambda top: st.lists(st.integers(0, top), max_size=30))


def first_end(text: Sequence[int], part: Sequence[int]) -> int | None:
    """Number of tokens up to and including the earliest occurrence."""
    n = len(part)
    return next((i + n for i in range(len(text) - n + 1) if list(text[i : i + n]) == list(part)), None)


def walk(automaton: SuffixAutomaton, part: Sequence[int]) -> int | None:
    state = START
    for token in part:
        if token not in automaton.next[state]:
            return None
        state = automaton.next[state][token]
    return state


@given(texts)
def test_has_at_most_two_states_for_each_token(text):
    states, n = len(SuffixAutomaton(text).next), len(text)
    assert n + 1 <= states <= max(n + 1, 2 * n - 1)


@given(texts)
def test_every_substring_leads_to_its_earliest_end(text):
    automaton = SuffixAutomaton(text)
    for start in range(len(text)):
        for stop in range(start + 1, len(text) + 1):
            state = walk(automaton, text[start:stop])
            assert state is not None
            assert automaton.end[state] == first_end(text, text[start:stop])
            assert automaton.length[automaton.link[state]] < stop - start <= automaton.length[state]


@given(texts, st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_what_is_no_substring_leads_nowhere(text, part):
    assert (walk(SuffixAutomaton(text), part) is not None) == (first_end(text, part) is not None)


@given(texts, st.lists(st.integers(0, 4), max_size=20))
def test_advance_follows_the_longest_suffix_that_occurs(text, other):
    automaton = SuffixAutomaton(text)
    state, matched = START, 0
    for count, token in enumerate(other, start=1):
        state, matched = automaton.advance(state, matched, token)
        longest = max(n for n in range(count + 1) if first_end(text, other[count - n : count]) is not None)
        assert matched == longest
        assert automaton.end[state] == first_end(text, other[count - longest : count])


@given(texts)
def test_advance_before_extend_finds_the_longest_suffix_that_occurred_before(text):
    automaton = SuffixAutomaton()
    state, matched = START, 0
    for count, token in enumerate(text, start=1):
        state, matched = automaton.advance(state, matched, token)
        automaton.extend(token)
        seen, past = text[:count], text[: count - 1]
        longest = max(n for n in range(count) if first_end(past, seen[count - n :]) is not None)
        assert matched == longest
        assert automaton.end[state] == first_end(seen, seen[count - longest :])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=40))
def test_match_stays_right_while_the_text_grows_under_it(moves):
    text, match = [], []
    automaton, state = SuffixAutomaton(), START
    for grows, token in moves:
        if grows:
            text.append(token)
            automaton.extend(token)
            continue
        state, matched = automaton.advance(state, len(match), token)
        match.append(token)
        while first_end(text, match) is None:
            match.pop(0)
        assert matched == len(match)
        assert automaton.end[state] == first_end(text, match)


def test_match_that_a_split_has_shortened_goes_on_from_its_own_earliest_end():
    automaton = SuffixAutomaton([1, 2])
    state, matched = automaton.advance(START, 0, 2)
    # Now 2 is seen without 1 before it, is followed by 4, and only later 1 2 is, too.
    for token in (3, 2, 4, 1, 2, 4):
        automaton.extend(token)
    state, matched = automaton.advance(state, matched, 4)
    assert (matched, automaton.end[state]) == (2, 5)


@given(texts, st.integers(0, 30))
def test_growing_token_by_token_equals_building_at_once(text, cut):
    grown = SuffixAutomaton(text[:cut])
    for token in text[cut:]:
        grown.extend(token)
    whole = SuffixAutomaton(text)
    for name in ("next", "link", "length", "end", "tokens", "last"):
        assert getattr(grown, name) == getattr(whole, name)


def test_longest_possible_automaton():
    text = [0, *[1] * 8]
    assert len(SuffixAutomaton(text).next) == 2 * len(text) - 1
