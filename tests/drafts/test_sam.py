from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.base import DraftContext, Resources
from skipmap.drafts.sam import Sam, SamParams
from skipmap.errors import InvalidInput, NotFound
from skipmap.tree import TokenTree


def read_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


RESOURCES = Resources(encode=read_numbers)


def propose(tokens: Sequence[int], draft: Sam | None = None, **params: object) -> tuple[int, ...]:
    draft = draft or Sam(SamParams(**params))
    tree = draft.propose(draft.fresh(), DraftContext(tokens, remaining=100))
    assert tree.is_chain
    return tree.tokens


@pytest.fixture
def with_corpus(tmp_path: Path):
    def build(corpus: Sequence[int], **params: object) -> Sam:
        path = tmp_path / "corpus.txt"
        path.write_text(" ".join(map(str, corpus)), encoding="utf-8")
        return Sam(SamParams(corpus=str(path), **params), RESOURCES)

    return build


def different(start: int, count: int) -> list[int]:
    """Tokens of which none repeats."""
    return list(range(start, start + count))


def test_nothing_repeats_nothing_is_drafted():
    assert propose(different(0, 20)) == ()
    assert propose([3]) == ()


@pytest.mark.parametrize(
    ("matched", "params", "drafted"),
    [
        (1, {}, 4),
        (2, {}, 8),
        (14, {}, 56),
        (15, {}, 59),
        (30, {}, 59),
        (2, {"growth": 1.5}, 3),
        (3, {"growth": 0.5}, 1),
        (1, {"growth": 0.5}, 0),
        (5, {"max_positions": 8}, 7),
        (2, {"min_match": 3}, 0),
        (3, {"min_match": 3}, 12),
    ],
)
def test_draft_grows_with_the_match(matched, params, drafted):
    phrase = different(500, matched)
    tokens = [*phrase, *different(0, 100), *phrase]
    assert propose(tokens, **params) == tuple(range(drafted))
    assert Sam(SamParams(**params)).tree_size == params.get("max_positions", 60)


def test_continues_after_the_earliest_end_of_the_longest_match():
    tokens = [1, 2, 50, 9, 1, 2, 60, 8, 2]
    assert propose(tokens)[:2] == (50, 9)
    assert propose([2, 70, 9, 1, 2, 60, 8, 1, 2])[:2] == (60, 8)


def test_repetition_is_drafted_on_past_its_end():
    assert propose([5, 5, 5]) == (5,) * 8
    assert propose([9, 1, 2, 3, 1, 2, 3, 1, 2, 3]) == (1, 2, 3) * 8


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), st.integers(2, 5))
def test_periodic_text_goes_on_with_its_period(period, times):
    tokens = period * times
    drafted = propose(tokens)
    assert len(drafted) == min(60, 1 + 4 * len(period) * (times - 1)) - 1
    assert list(drafted) == (period * 60)[: len(drafted)]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.lists(st.integers(1, 39), max_size=5))
def test_proposals_do_not_depend_on_when_they_were_asked_for(tokens, stops):
    draft = Sam(SamParams())
    state = draft.fresh()
    for stop in [*sorted(stops), len(tokens)]:
        asked = draft.propose(state, DraftContext(tokens[:stop], 100)).tokens
        assert asked == propose(tokens[:stop])


def test_states_of_two_requests_are_apart():
    draft = Sam(SamParams())
    draft.propose(draft.fresh(), DraftContext([1, 2, 3, 1, 2], 100))
    assert draft.propose(draft.fresh(), DraftContext([1], 100)) == TokenTree()


def test_corpus_drafts_what_the_request_never_said(with_corpus):
    draft = with_corpus([*different(100, 20)], static_bias=0)
    assert propose([1, 2, 104, 105], draft) == tuple(range(106, 114))


@pytest.mark.parametrize(("bias", "winner"), [(0, 109), (1, 109), (2, 77)])
def test_corpus_match_must_be_longer_by_the_bias(bias, winner, with_corpus):
    # The corpus knows the last four tokens, the request the last two.
    draft = with_corpus(different(100, 20), static_bias=bias)
    assert propose([107, 108, 77, 105, 106, 107, 108], draft)[0] == winner


def test_default_bias_is_five(with_corpus):
    draft = with_corpus(different(100, 20))
    assert propose(different(100, 5), draft) == ()
    assert propose(different(100, 6), draft)[0] == 106


def test_draft_from_the_corpus_ends_with_it(with_corpus):
    draft = with_corpus(different(100, 20), static_bias=0)
    assert propose([1, 116], draft) == (117, 118, 119)


def test_match_at_the_end_of_the_corpus_leaves_the_word_to_the_request(with_corpus):
    draft = with_corpus(different(100, 20), static_bias=0)
    assert propose([119, 7, 118, 119], draft)[:1] == (7,)


def test_corpus_has_a_fingerprint(with_corpus, tmp_path):
    draft = with_corpus([1, 2, 3])
    assert draft.fingerprint == hashlib.sha256((tmp_path / "corpus.txt").read_bytes()).hexdigest()
    assert Sam(SamParams()).fingerprint is None


def test_corpus_that_cannot_be_used_is_named(tmp_path):
    missing = tmp_path / "gone.txt"
    with pytest.raises(NotFound, match=r"draft\.params\.corpus: no file .*gone\.txt"):
        Sam(SamParams(corpus=str(missing)), RESOURCES)
    binary = tmp_path / "x.bin"
    binary.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidInput, match=r"draft\.params\.corpus: .*UTF-8"):
        Sam(SamParams(corpus=str(binary)), RESOURCES)
    with pytest.raises(InvalidInput, match=r"draft\.params\.corpus: .*UTF-8|directory"):
        Sam(SamParams(corpus=str(tmp_path)), RESOURCES)
    (tmp_path / "fine.txt").write_text("1 2")
    with pytest.raises(InvalidInput, match="tokenizer"):
        Sam(SamParams(corpus=str(tmp_path / "fine.txt")))
