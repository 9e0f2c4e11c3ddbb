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
    pruned = without_blocks(tiny_model("gemma3"), skip)
    # Alone, and as rows of a mixed batch.
    for skips in ([skip], sorted({skip, *SKIPS})):
        batch = tiny_target("gemma3").prefill(
            skips, PROMPTS, slots=1, capture=frozenset({0, 2, 5, 6}), keep_hidden=True
        )
        for place, prompt in enumerate(PROMPTS):
            row = skips.index(skip) * len(PROMPTS) + place
            with torch.inference_mode():
                states = pruned(torch.tensor([prompt]), output_hidden_states=True).hidden_states
            captured = batch.prompt_block_inputs_of(row)
            assert set(captured) == {0, 2, 5, 6}
            # What leaves the last block, before the final norm.
            with torch.inference_mode():
                normed = pruned.base_model.norm(captured.pop(6))
            assert (normed - states[-1][0]).abs().max() <= 1e-4
            for block, hidden in captured.items():
                entered = block - len(skip.before(block))
                # The last of Hugging Face's states is behind the final norm.
                if entered < 6 - len(skip):
                    assert (hidden - states[entered][0]).abs().max() <= 1e-4
            assert batch.prompt_hidden_of(row).shape == (len(prompt), 32)
            assert (batch.prompt_hidden_of(row) - states[-1][0]).abs().max() <= 1e-4
