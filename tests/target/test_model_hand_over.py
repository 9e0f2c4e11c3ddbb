"""What a batch hands on: rows taken out of it, and the prompt's hidden states."""

from __future__ import annotations

import pytest
import torch

from skipmap.skipset import SkipSet

SKIPS = [SkipSet.of(s) for s in ([], [0], [0, 2, 5], [1, 2, 3, 4, 5], [3])]
PROMPTS = [list(range(20)), [*range(18), 50, 51, 52, 53, 54]]


@pytest.mark.parametrize("policy", ["sparse", "dense"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_rows_taken_out_of_a_batch_go_on_as_before(family, policy, tiny_target):
    target = tiny_target(family)
    batch = target.prefill(SKIPS, PROMPTS, slots=12, policy=policy)
    assert batch.prefix_length == 18
    target.step(batch, torch.randint(97, (batch.rows, 3)))
    for row in range(batch.rows):
        batch.commit(torch.tensor([row]), 1 + row % 3)
    rows = [0, 3, 4, 7, 9]
    taken = batch.take(rows)
    assert taken.skips == tuple(SKIPS[row // 2] for row in rows)
    assert taken.used.tolist() == batch.used[rows].tolist()
    for count in (1, 4):
        tokens = torch.randint(97, (len(rows), count))
        expected = target.step(batch, tokens, rows=torch.tensor(rows)).hidden
        assert (target.step(taken, tokens).hidden - expected).abs().max() <= 1e-4
        batch.commit(torch.tensor(rows), count)
        taken.commit(torch.arange(len(rows)), count)


def test_taken_rows_are_a_copy(tiny_target):
    target = tiny_target()
    batch = target.prefill(SKIPS, PROMPTS, slots=4)
    token = torch.full((batch.rows, 1), 9)
    before = target.step(batch, token).hidden
    taken = batch.take([2, 5])
    target.step(taken, torch.full((2, 4), 11))
    taken.commit(torch.arange(2), 4)
    assert torch.equal(target.step(batch, token).hidden, before)
    assert batch.used.tolist() == [0] * batch.rows


@pytest.mark.parametrize("skip", SKIPS, ids=str)
def test_prompt_hands_on_its_hidden_states(skip, tiny_model, tiny_target, without_blocks):
    batch = tiny_target("gemma3").prefill(
        [skip], PROMPTS[:1], slots=1, capture=frozenset({0, 2, 5}), keep_hidden=True
    )
    with torch.inference_mode():
        states = without_blocks(tiny_model("gemma3"), skip)(
            torch.tensor(PROMPTS[:1]), output_hidden_states=True
        ).hidden_states
    assert set(batch.prompt_block_inputs) == {0, 2, 5}
    for block, hidden in batch.prompt_block_inputs.items():
        entered = block - len(skip.before(block))
        # The last of Hugging Face's states is behind the final norm.
        if entered < 6 - len(skip):
            assert (hidden - states[entered][0]).abs().max() <= 1e-4
    assert batch.prompt_hidden.shape == (20, 32)
    assert (batch.prompt_hidden - states[-1][0]).abs().max() <= 1e-4


def test_hidden_states_of_several_rows_are_not_kept(tiny_target):
    with pytest.raises(ValueError, match="single row"):
        tiny_target().prefill(SKIPS[:1], PROMPTS, slots=1, keep_hidden=True)
    with pytest.raises(ValueError, match="single row"):
        tiny_target().prefill(SKIPS, PROMPTS[:1], slots=1, capture=frozenset({0}))
