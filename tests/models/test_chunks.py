from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.chunks import chunk_groups, halves, run_key, run_of, skip_key, skip_of
from skipmap.skipset import SkipSet


@given(st.integers(0, 400), st.one_of(st.none(), st.floats(0, 500, allow_nan=False)))
def test_chunks_hold_all_groups_in_order_for_up_to_a_minute(count, seconds):
    groups = list(range(count))
    chunks = chunk_groups(groups, seconds, 60)
    assert [group for chunk in chunks for group in chunk] == groups
    assert all(chunks)
    if seconds is None:
        assert all(len(chunk) == 1 for chunk in chunks)
        return
    longest = max((len(chunk) for chunk in chunks), default=0) * seconds
    assert longest <= max(60, seconds)


@given(st.integers(2, 400), st.floats(0.01, 10))
def test_chunks_take_half_a_minute_where_the_level_is_long_enough(count, seconds):
    chunks = chunk_groups(range(count), seconds, 60)
    if len(chunks) > 1:
        # One group more or less is the grain.
        assert min(len(chunk) for chunk in chunks) * seconds >= 30 - seconds


@given(st.integers(0, 40), st.one_of(st.none(), st.floats(0, 1)), st.integers(0, 12))
def test_every_worker_finds_a_chunk_where_there_are_groups(count, seconds, workers):
    chunks = chunk_groups(range(count), seconds, 60, workers)
    assert [group for chunk in chunks for group in chunk] == list(range(count))
    assert len(chunks) >= min(count, workers)


@pytest.mark.parametrize(
    ("kind", "keys", "parts"),
    [
        ("level", ("0,1", "0,2", "1,2"), (("0,1",), ("0,2", "1,2"))),
        ("single", ("3",), None),
        ("dense", ("dense",), None),
        ("held_out", ("0-5",), (("0-2",), ("2-5",))),
        ("held_out", ("4-5",), None),
        ("cost", ("all",), None),
        ("result", ("all",), None),
    ],
)
def test_halves(kind, keys, parts):
    assert halves(kind, keys) == parts


@given(st.sets(st.integers(0, 200)))
def test_keys_of_configurations_can_be_read_back(blocks):
    skip = SkipSet.of(blocks)
    assert skip_of(skip_key(skip)) == skip


def test_keys_are_plain():
    assert skip_key(SkipSet((7, 3))) == "3,7"
    assert skip_key(SkipSet()) == "dense"
    assert run_of(run_key(8, 16)) == (8, 16)
