from __future__ import annotations

import pytest
import torch

from skipmap.skipset import SkipSet
from skipmap.target.attention import HIDDEN
from skipmap.target.batch import Batch, Geometry
from skipmap.target.families import FULL, SLIDING
from skipmap.target.lineage import trace
from skipmap.target.masks import visibility

LAYERS, KV_HEADS, DIM, FLOAT_BYTES = 4, 2, 8, 4
PAIR = 2 * KV_HEADS * DIM * FLOAT_BYTES


def make(skips, lengths, *, prefix=0, capacity=6, shared=True, dense=False, window=None) -> Batch:
    """``lengths``: [prompts], or [configurations][prompts] when not shared."""
    skips = tuple(SkipSet.of(s) for s in skips)
    kind = FULL if window is None else SLIDING
    return Batch(
        skips=skips,
        lineage=trace(skips, LAYERS, shared=shared, dense_prefill=dense),
        geometry=Geometry(KV_HEADS, DIM, (kind,) * LAYERS, window, torch.device("cpu"), torch.float32),
        prefix_length=prefix,
        lengths=torch.tensor([lengths] if shared else lengths),
        capacity=capacity,
    )


def test_rows_are_configurations_by_prompts():
    batch = make([[0], [1]], [3, 5, 4], prefix=10)
    assert (batch.configurations, batch.prompts, batch.rows) == (2, 3, 6)
    assert batch.base.tolist() == [13, 15, 14, 13, 15, 14]
    own = make([[0], [1]], [[3, 5], [2, 1]], shared=False)
    assert own.base.tolist() == [3, 5, 2, 1]


def test_shared_prompts_are_stored_once_a_history():
    batch = make([[0], [1], [2]], [3, 5], prefix=10, capacity=6)
    # Histories that a block runs, and configurations that decode through it:
    # block 0: {1},{2} together; block 1: {0} and {2}; block 2: {0}, {1}; block 3: all three apart.
    histories, running = [1, 2, 2, 3], [2, 2, 2, 3]
    shared = sum(histories) * (10 + 2 * 5)
    assert batch.storage_bytes == PAIR * (shared + sum(running) * 2 * 6)


def test_block_that_no_row_runs_has_no_storage():
    batch = make([[1], [1, 2]], [4, 4], prefix=16)
    empty = batch.stores[1]
    assert (empty.prefix, empty.prompts, empty.slots) == (None, None, None)
    assert batch.storage_bytes == PAIR * ((1 + 1 + 2) * (16 + 2 * 4) + (2 + 1 + 2) * 2 * 6)


def test_dense_prefill_keeps_nothing_of_a_block_that_no_row_decodes_through():
    batch = make([[1], [1, 2]], [4, 4], dense=True)
    assert batch.stores[1].prompts is None
    assert batch.stores[1].slots is None
    assert batch.storage_bytes == PAIR * ((1 + 1 + 1) * 2 * 4 + (2 + 1 + 2) * 2 * 6)


def test_hidden_slots_hold_zeros_from_the_start():
    for store in make([[0], [2]], [3, 2], prefix=5).stores:
        for segment in (store.prefix, store.prompts, store.slots):
            assert not segment.keys.any()
            assert not segment.values.any()


def test_commit_counts_for_the_given_rows():
    batch = make([[0], [1]], [3, 3])
    batch.commit(torch.tensor([0, 3]), 2)
    batch.commit(torch.tensor([3]), 1)
    assert batch.used.tolist() == [2, 0, 0, 3]


def test_commit_path_moves_root_and_accepted_nodes_of_one_row_together():
    batch = make([[0], [1]], [3, 3], capacity=8)
    for store in batch.stores:
        store.slots.keys[:] = torch.arange(8.0)[:, None]
        store.slots.values[:] = 100 + torch.arange(8.0)[:, None]
    row = 2  # configuration {1}, prompt 0
    batch.commit(torch.tensor([row]), 2)
    batch.commit_paths(torch.tensor([row]), [[1, 2, 4]])
    assert batch.used.tolist() == [0, 0, 6, 0]
    for block, line in enumerate(batch.lineage.blocks):
        keys, values = batch.stores[block].slots.keys, batch.stores[block].slots.values
        for own, config in enumerate(line.running):
            for prompt in range(2):
                moved = (config, prompt) == (1, 0)
                expected = [0, 1, 2, 4, 5, 7] if moved else [0, 1, 2, 3, 4, 5]
                assert (keys[own, prompt, :, :6] == torch.tensor(expected)[:, None]).all()
                assert (values[own, prompt, :, :6] == 100 + torch.tensor(expected)[:, None]).all()


def test_commit_path_of_nothing_keeps_the_root():
    batch = make([[]], [3])
    batch.commit_paths(torch.tensor([0]), [[]])
    assert batch.used.tolist() == [1]


def seen(bias: torch.Tensor | None) -> list:
    assert bias is not None
    assert ((bias == 0) | (bias == torch.tensor(HIDDEN))).all()
    return (bias == 0).int().tolist()


def test_full_attention_hides_only_the_padding_of_prompts():
    batch = make([[0], [1]], [1, 3], prefix=16)
    positions = batch.base[:, None]
    masks = visibility(batch, positions, positions, None, FULL)
    assert masks.prefix is None
    assert masks.slots is None
    assert seen(masks.prompts) == [[[[1, 0, 0]], [[1, 1, 1]]]]


def test_equal_prompts_need_no_mask():
    batch = make([[0], [1]], [3, 3])
    masks = visibility(batch, batch.base[:, None], batch.base[:, None], None, FULL)
    assert (masks.prefix, masks.prompts, masks.slots) == (None, None, None)


def test_window_hides_by_position_in_every_segment():
    batch = make([[]], [1, 3], prefix=2, window=4)
    positions = torch.tensor([[5], [6]])  # prompts end at 2 and 4; own slots hold 3.. and 5..
    slot_positions = torch.tensor([[3, 4, 5], [5, 6, 7]])
    causal = slot_positions[:, None] <= positions[..., None]
    masks = visibility(batch, positions, slot_positions, causal, SLIDING)
    assert seen(masks.prefix) == [[[[0, 0]], [[0, 0]]]]
    assert seen(masks.prompts) == [[[[1, 0, 0]], [[0, 1, 1]]]]
    assert seen(masks.slots) == [[[[1, 1, 1]], [[1, 1, 0]]]]


@pytest.mark.parametrize("kind", [FULL, SLIDING])
def test_window_that_nothing_has_left_yet_hides_nothing(kind):
    batch = make([[]], [3, 3], window=16)
    masks = visibility(batch, batch.base[:, None], batch.base[:, None], None, kind)
    assert (masks.prefix, masks.prompts, masks.slots) == (None, None, None)
