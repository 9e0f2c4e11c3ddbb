from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skipmap.profiling.plan import Storage, batches, chunks, storage_of
from skipmap.skipset import SkipSet


@given(
    st.lists(st.integers(1, 300), max_size=30),
    st.builds(Storage, st.integers(1, 16), st.integers(1, 16)),
    st.integers(1, 64),
    st.integers(256, 8192),
)
def test_batch_plan(lengths, storage, new_tokens, batch_tokens):
    plan = batches(lengths, storage, new_tokens, batch_tokens)
    order = [i for chunk in plan for i in chunk]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths)

    def positions(chunk):
        longest = max(lengths[i] for i in chunk)
        return len(chunk) * (storage.histories * longest + storage.rows * new_tokens)

    for chunk in plan:
        assert len(chunk) == 1 or positions(chunk) <= batch_tokens
    for chunk, following in pairwise(plan):
        assert positions([*chunk, following[0]]) > batch_tokens


def test_storage_counts_shared_histories_once(make_subject):
    options = make_subject().options
    # Of four blocks: {0} and {1} part at block 0; {1} sits out block 1, where {0} goes on alone.
    found = storage_of([SkipSet((0,)), SkipSet((1,))], 4, options)
    assert (found.histories, found.rows) == ((1 + 1 + 2 + 2) / 4, (1 + 1 + 2 + 2) / 4)
    assert storage_of([SkipSet((2,)), SkipSet((3,))], 4, options) == Storage(
        (1 + 1 + 1 + 1) / 4, (2 + 2 + 1 + 1) / 4
    )
    assert storage_of([SkipSet((2,)), SkipSet((3,))], 4, options, turns=2).histories == (2 + 2 + 1 + 1) / 4
    assert storage_of([SkipSet((2,))] * 1, 4, replace(options, prefill="dense")) == Storage(3 / 4, 3 / 4)


def test_carried_state_takes_prompts_one_by_one_in_their_order(make_subject, make_items):
    items = [*make_items(2, turns=2), *make_items(3, seed=1)]
    subject = replace(make_subject(), carries_state=True)
    assert list(chunks(subject, [SkipSet()], items, 10**6, "live")) == [[item] for item in items]


def test_live_batches_leave_room_for_the_trees(make_subject, make_items):
    items = make_items(6)
    small, large = (make_subject(params={"num_tokens": n}) for n in (1, 100))
    sizes = [
        [len(chunk) for chunk in chunks(subject, [SkipSet()], items, 300, evaluator)]
        for subject in (small, large)
        for evaluator in ("live", "replay")
    ]
    assert sizes[1] == sizes[3]
    assert max(sizes[2]) < max(sizes[0])
