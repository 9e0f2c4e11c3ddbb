from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet

sets = st.sets(st.integers(0, 200)).map(SkipSet.of)


@pytest.mark.parametrize("text", ["", "  ", "dense", "{}", "[]"])
def test_dense_has_several_spellings(text):
    assert SkipSet.parse(text) == SkipSet()


@pytest.mark.parametrize("text", ["7,3", " 3 , 7 ", "{3,7}", "[3, 7]", "3,7,3"])
def test_parse_sorts_and_drops_repeats(text):
    assert SkipSet.parse(text).to_list() == [3, 7]


@pytest.mark.parametrize("text", ["3,", "3,,7", "-1", "a", "1.5", "1-3", "²", "9" * 5000])
def test_parse_refuses_what_is_no_index(text):
    with pytest.raises(InvalidInput, match=r"^domain\.skip: .*no block index"):
        SkipSet.parse(text, field="domain.skip")


@given(sets)
def test_text_form_reads_back(skip):
    assert SkipSet.parse(str(skip)) == skip


def test_negative_index_is_refused():
    with pytest.raises(InvalidInput, match="-2 is negative"):
        SkipSet.of([4, -2])


def test_validate_asks_for_existing_blocks_and_one_that_runs():
    assert SkipSet.of([0, 4]).validate(5) == SkipSet.of([0, 4])
    assert SkipSet.of(range(4)).validate(5).blocks == (0, 1, 2, 3)
    with pytest.raises(InvalidInput, match=r"block 5 does not exist; the target has blocks 0\.\.4"):
        SkipSet.of([5]).validate(5)
    with pytest.raises(InvalidInput, match="all 5 blocks are skipped"):
        SkipSet.of(range(5)).validate(5)


@given(st.lists(sets))
def test_order_is_that_of_the_sorted_indices(skips):
    assert [s.to_list() for s in sorted(skips)] == sorted(s.to_list() for s in skips)


@given(sets, st.integers(0, 200))
def test_before_keeps_the_lower_blocks(skip, block):
    assert set(skip.before(block)) == {b for b in skip if b < block}


def test_behaves_as_a_set_and_as_a_key():
    skip = SkipSet((7, 3, 3))
    assert len(skip) == 2
    assert 3 in skip
    assert 4 not in skip
    assert list(skip) == [3, 7]
    assert {skip: 1}[SkipSet.of({3, 7})] == 1
