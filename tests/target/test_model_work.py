"""What a forward costs: blocks that run, rows they run for, storage, and the hook after each forward."""

from __future__ import annotations

import pytest
import torch

from skipmap.skipset import SkipSet
from skipmap.target.model import Progress

LAYERS = 6
SINGLES = [SkipSet.of([block]) for block in range(LAYERS)]
PROMPTS = [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.fixture
def target(tiny_target):
    return tiny_target("gemma3")


@pytest.fixture
def work(target) -> list[list[int]]:
    """Rows that each call of each block worked on, [blocks][calls], counted at the blocks themselves."""
    seen: list[list[int]] = [[] for _ in range(LAYERS)]
    for index, bypass in enumerate(target.model.model.layers):

        def count(module, args, kwargs, index=index):
            seen[index].append(args[0].shape[0])

        bypass.block.register_forward_pre_hook(count, with_kwargs=True)
    return seen


def test_block_that_every_row_skips_does_not_run(target, work):
    skips = [SkipSet.of([0, 3]), SkipSet.of([0, 5])]
    batch = target.prefill(skips, PROMPTS, slots=3)
    for _ in range(3):
        output = target.step(batch, torch.full((4, 1), 9))
        assert output.blocks_run == (1, 2, 3, 4, 5)
        batch.commit(torch.arange(4), 1)
    assert target.block_calls == [0, 4, 4, 4, 4, 4]
    assert [len(calls) for calls in work] == target.block_calls
    assert batch.stores[0].slots is None
    target.reset_counts()
    assert target.block_calls == [0] * LAYERS


def test_block_runs_for_the_rows_that_keep_it_and_not_when_none_of_them_steps(target, work):
    batch = target.prefill([SkipSet.of([1]), SkipSet.of([4])], PROMPTS, slots=2)
    target.reset_counts()
    for calls in work:
        calls.clear()
    assert target.step(batch, torch.full((4, 1), 9)).blocks_run == tuple(range(LAYERS))
    assert target.step(batch, torch.full((2, 1), 9), rows=torch.tensor([0, 1])).blocks_run == (0, 2, 3, 4, 5)
    assert target.step(batch, torch.full((1, 1), 9), rows=torch.tensor([3])).blocks_run == (0, 1, 2, 3, 5)
    assert target.block_calls == [3, 2, 3, 3, 2, 3]
    assert work[0] == [4, 2, 1]
    assert work[1] == [2, 1]
    assert work[4] == [2, 2]


def test_prefill_computes_equal_histories_once(target, work):
    target.prefill(SINGLES, PROMPTS, slots=1)
    # Before block b there are b sets that have skipped a block, each a history of its own, and one history for all
    # later sets, which ends at block b for {b} alone.
    for block, calls in enumerate(work):
        histories = block + (1 if block < LAYERS - 1 else 0)
        assert calls == [histories * len(PROMPTS)]


def test_common_prefix_is_computed_once_for_all_prompts(target, work):
    start = list(range(20))
    target.prefill(SINGLES[3:], [[*start, 1], [*start, 2], [*start, 3]], slots=1)
    assert work[0] == [1, 3]
    assert work[5] == [2, 6]


def test_dense_prefill_is_one_history_whatever_the_skip_sets(target, work):
    target.prefill(SINGLES, PROMPTS, slots=1, policy="dense")
    assert work == [[2]] * LAYERS


@pytest.mark.parametrize("policy", ["sparse", "dense"])
@pytest.mark.parametrize("start", [[], list(range(16))], ids=["no prefix", "common prefix"])
def test_block_that_no_row_runs_has_no_storage(start, policy, target):
    skips = [SkipSet.of([0, 3]), SkipSet.of([3, 5])]
    batch = target.prefill(skips, [[*start, 1], [*start, 2]], slots=2, policy=policy)
    target.step(batch, torch.full((4, 2), 9))
    stored = [any((s.prefix, s.prompts, s.slots)) for s in batch.stores]
    assert stored == [True, True, True, False, True, True]


def test_storage_of_shared_prompts_does_not_grow_with_the_prompt_for_each_set(target):
    def bytes_for(skips, length):
        return target.prefill(skips, [[1] * length, [2] * length], slots=4).storage_bytes

    deep = [SkipSet.of([block]) for block in (4, 5)]
    per_token = (bytes_for(deep[:1], 40) - bytes_for(deep[:1], 20)) / 5  # five blocks run
    # Blocks 0 to 3 hold one history for both sets; 4 and 5 are run by one of them each.
    assert bytes_for(deep, 40) - bytes_for(deep, 20) == per_token * 6


def test_hook_is_called_after_every_forward(tiny_target):
    seen: list[Progress] = []
    forwards = []
    target = tiny_target("llama", hook=seen.append)
    target.model.model.register_forward_hook(lambda *_: forwards.append(len(seen)))
    start = list(range(16))
    batch = target.prefill(SINGLES, [[*start, 1, 2], [*start, 3]], slots=4)
    target.step(batch, torch.full((12, 3), 9))
    target.step(batch, torch.full((1, 1), 9), rows=torch.tensor([7]))
    assert forwards == [0, 1, 2, 3]
    assert [progress.kind for progress in seen] == ["prefill", "prefill", "step", "step"]
    assert seen[2:] == [Progress("step", 12, 36), Progress("step", 1, 1)]


@pytest.mark.parametrize("shared", [True, False])
def test_prefill_reports_the_rows_and_tokens_that_came_out(shared, tiny_target):
    seen: list[Progress] = []
    target = tiny_target("llama", hook=seen.append)
    target.prefill(SINGLES, PROMPTS if shared else [PROMPTS] * LAYERS, slots=1)
    assert seen == [Progress("prefill", LAYERS * 2, LAYERS * 2 * 4)]


@pytest.mark.parametrize("stop_at", range(4))
def test_raising_hook_stops_at_once_and_leaves_the_target_usable(stop_at, tiny_target):
    calls = []

    def hook(progress: Progress) -> None:
        calls.append(progress)
        if len(calls) == stop_at + 1:
            raise InterruptedError("drain")

    def run(target) -> torch.Tensor:
        batch = target.prefill(SINGLES, [[*range(16), 1, 2], [*range(16), 3]], slots=2)
        first = target.step(batch, torch.full((12, 1), 9)).hidden
        batch.commit(torch.arange(12), 1)
        return torch.cat([first, target.step(batch, torch.full((12, 1), 8)).hidden], dim=1)

    target = tiny_target("gemma3", hook=hook)
    with pytest.raises(InterruptedError, match="drain"):
        run(target)
    assert len(calls) == stop_at + 1
    assert torch.equal(run(target), run(tiny_target("gemma3")))
