from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.base import Resources
from skipmap.drafts.suffix_match import Match, MatchState, SuffixMatcher

RESOURCES = Resources(encode=lambda text: [int(word) for word in text.split()])


def different(start: int, count: int) -> list[int]:
    """Tokens of which none repeats."""
    return list(range(start, start + count))


@pytest.fixture
def matcher(tmp_path: Path):
    def build(corpus: Sequence[int], bias: int) -> SuffixMatcher:
        path = tmp_path / "corpus.txt"
        path.write_text(" ".join(map(str, corpus)), encoding="utf-8")
        return SuffixMatcher(str(path), bias, RESOURCES)

    return build


def test_first_end_of_the_longest_suffix():
    text = [1, 2, 50, 9, 1, 2, 60, 8, 9, 1, 2]
    assert SuffixMatcher(None, 5, None).match(MatchState(), text) == Match(text, 6, 3, 3, own=True)


def test_text_without_repetition_has_an_empty_match():
    match = SuffixMatcher(None, 0, None).match(MatchState(), [1, 2, 3])
    assert (match.length, match.score) == (0, 0)


def test_only_what_is_new_is_read():
    matcher, state = SuffixMatcher(None, 5, None), MatchState()
    assert matcher.match(state, [1, 2, 1]).end == 1
    assert matcher.match(state, [1, 2, 1]).end == 1
    assert matcher.match(state, [1, 2, 1, 2]) == Match([1, 2, 1, 2], 2, 2, 2, own=True)


@pytest.mark.parametrize(
    ("bias", "own", "score"),
    [(0, False, 4), (1, False, 3), (2, True, 2), (3, True, 2)],
    ids=["longer", "longer by more than the bias", "a tie", "longer by less"],
)
def test_corpus_wins_only_beyond_its_bias(bias, own, score, matcher):
    # The corpus knows the last four tokens, the request the last two.
    corpus, text = different(100, 20), [107, 108, 77, 105, 106, 107, 108]
    match = matcher(corpus, bias).match(MatchState(), text)
    assert match == (Match(text, 2, 2, 2, own=True) if own else Match(corpus, 9, 4, score, own=False))


def test_corpus_that_ends_with_the_match_has_no_say(matcher):
    match = matcher([1, 2, 3, 4], 0).match(MatchState(), [4, 9, 2, 3, 4])
    assert match == Match([4, 9, 2, 3, 4], 1, 1, 1, own=True)


def test_continuation_in_a_corpus_ends_with_it():
    match = Match([1, 2, 3, 4, 5], 3, 2, 2, own=False)
    assert match.continuation(1) == [4]
    assert match.continuation(9) == [4, 5]


def test_continuation_in_the_own_text_goes_on_with_its_period():
    match = Match([7, 1, 2, 3, 1, 2], 3, 2, 2, own=True)
    assert match.continuation(2) == [3, 1]
    assert match.continuation(7) == [3, 1, 2, 3, 1, 2, 3]


@given(st.lists(st.integers(0, 2), min_size=2, max_size=30), st.integers(1, 40))
def test_own_continuation_is_what_the_match_says_of_the_longer_text(text, wanted):
    match = SuffixMatcher(None, 0, None).match(MatchState(), text)
    assert match.text[match.end - match.length : match.end] == text[len(text) - match.length :]
    if match.length:
        longer = [*text, *match.continuation(wanted)]
        shift = len(text) - match.end
        assert len(longer) == len(text) + wanted
        assert all(longer[place] == longer[place - shift] for place in range(len(text), len(longer)))
