"""Forwards that depart from a verification step: each equals one that comes by the plain way."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target import steps
from skipmap.target.detour import Detour, SubLayers
from skipmap.target.forest import plant
from skipmap.tree import ROOT, TokenTree

FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
SKIPS = [SkipSet(), SkipSet((0, 2)), SkipSet((3,))]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def words(seed: int, *lengths: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(97) for _ in range(length)] for length in lengths]


PROMPTS = words(1, 9, 12)
"""Both longer than the window of 7."""


@pytest.fixture(params=FAMILIES)
def target(request, tiny_target):
    return tiny_target(request.param)


@pytest.fixture(params=["row by row", "on a grid"], autouse=True)
def _attention(request, monkeypatch) -> None:
    if request.param == "on a grid":
        monkeypatch.setattr(steps, "ALONE_ON", frozenset())


def some(target, slots: int = 40, policy: str = "sparse", skips: list[SkipSet] | None = None):
    """A batch whose rows have each taken and kept 4 tokens."""
    batch = target.prefill(skips or SKIPS, PROMPTS, slots=slots, policy=policy)
    target.step(batch, torch.tensor(words(2, *[4] * batch.rows)))
    batch.commit(torch.arange(batch.rows), 4)
    return batch


def test_left_out_blocks_equal_a_skip_set_on_the_same_history(target) -> None:
    dense = some(target, skips=[SkipSet()], policy="dense")
    gone = SkipSet((0, 3, 5))
    plain = target.prefill([gone], PROMPTS, slots=40, policy="dense")
    for store, other in zip(plain.stores, dense.stores, strict=True):
        if store.slots is not None:
            store.slots = other.slots
    plain.used = dense.used.clone()
    tokens = torch.tensor(words(3, 5, 5))
    found = target.step(dense, tokens, detour=Detour(SubLayers.of_blocks(gone)))
    assert found.blocks_run == (1, 2, 4)
    torch.testing.assert_close(found.hidden, target.step(plain, tokens).hidden, **CLOSE)


@pytest.mark.parametrize("part", ["attention", "mlp"])
def test_a_left_out_sub_layer_adds_nothing(target, part: str) -> None:
    batch, tokens = some(target), torch.tensor(words(3, *[3] * 6))
    layers = {part: SkipSet((1, 4))}
    found = target.step(batch, tokens, detour=Detour(SubLayers(**layers))).hidden
    assert not torch.allclose(found, target.step(batch, tokens).hidden, **CLOSE)
    for index in (1, 4):
        block = target.model.base_model.layers[index].block
        last = block.self_attn.o_proj if part == "attention" else block.mlp.down_proj
        last.weight = torch.nn.Parameter(torch.zeros_like(last.weight), requires_grad=False)
    torch.testing.assert_close(found, target.step(batch, tokens).hidden, **CLOSE)


@pytest.mark.parametrize("ragged", [False, True])
def test_rows_can_leave_out_different_things(target, ragged: bool) -> None:
    batch, tokens = some(target), torch.tensor(words(3, *[3] * 6))
    counts = torch.tensor([3, 1, 2, 3, 3, 2] if ragged else [3] * 6)
    sets = [
        SubLayers(SkipSet((0, 1, 5)), SkipSet((0, 5))),
        SubLayers(SkipSet((5,)), SkipSet((3, 5))),
        SubLayers(SkipSet((1, 5)), SkipSet((1, 4, 5))),
    ] * 2
    detour = Detour.leaving_out(sets)
    assert detour.without == SubLayers.of_blocks(SkipSet((5,)))
    found = target.step(batch, tokens, counts=counts, detour=detour)
    assert 5 not in found.blocks_run
    # What a row left out has left nothing of its own behind: the tokens after it see the same.
    more = torch.tensor(words(4, *[1] * 6))
    rows = torch.arange(6)
    used = batch.used
    batch.used = used + counts
    after = target.step(batch, more, detour=detour).hidden
    batch.used = used
    parts = found.hidden[0].split(counts.tolist()) if ragged else found.hidden
    for row, left_out in enumerate(sets):
        alone, count = rows[row : row + 1], int(counts[row])
        own = Detour(left_out)
        expected = target.step(batch, tokens[alone, :count], rows=alone, detour=own).hidden[0]
        torch.testing.assert_close(parts[row], expected, **CLOSE)
        expected = target.step(batch, more[alone], rows=alone, ahead=count, detour=own).hidden[0]
        torch.testing.assert_close(after[row], expected, **CLOSE)


def test_a_failing_block_gets_its_sub_layers_back(target) -> None:
    batch = some(target)
    detour = Detour(SubLayers(attention=SkipSet((1,))), settle=lambda *_: 1 / 0)
    attention = target.model.base_model.layers[1].block.self_attn
    with pytest.raises(ZeroDivisionError):
        target.step(batch, torch.tensor(words(3, *[1] * 6)), detour=detour)
    assert "forward" not in vars(attention)


def test_sub_layers_beyond_the_model_are_refused() -> None:
    with pytest.raises(InvalidInput, match="6"):
        SubLayers(mlp=SkipSet((6,))).validate(6)


def test_what_is_injected_enters_the_block(target) -> None:
    batch, counts = some(target), torch.tensor([3, 1, 2, 3, 3, 2])
    tokens = torch.tensor(words(3, *[3] * 6))
    plain = target.step(batch, tokens, counts=counts, capture=frozenset({2}))
    other = torch.tensor(words(4, *[3] * 6))
    detour = Detour(inject=plain.block_inputs)
    found = target.step(batch, other, counts=counts, detour=detour)
    torch.testing.assert_close(found.hidden, plain.hidden, **CLOSE)


def test_the_way_on_after_a_block_can_be_chosen(target) -> None:
    batch, tokens = some(target, skips=[SkipSet()]), torch.tensor(words(3, 2, 2))
    asked = []

    def back(index: int, before: Tensor, after: Tensor) -> Tensor:
        asked.append(index)
        return before if index in (1, 2) else after

    found = target.step(batch, tokens, detour=Detour(settle=back)).hidden
    assert asked == list(range(6))
    without = Detour(SubLayers.of_blocks(SkipSet((1, 2))))
    torch.testing.assert_close(found, target.step(batch, tokens, detour=without).hidden, **CLOSE)


def test_a_tree_grows_in_several_forwards(target) -> None:
    batch = some(target)
    trees = [
        TokenTree(tuple(words(row, 6)[0]), (ROOT, ROOT, 0, 0, 1, 3) if row % 2 else (ROOT, 0, 1, 2, 2, 4))
        for row in range(6)
    ]
    forest = plant([5] * 6, trees)
    whole = target.step(batch, forest.tokens, depths=forest.depths, ancestors=forest.ancestors).hidden
    for first, last in ((0, 3), (3, 4), (4, 7)):
        part = target.step(
            batch,
            forest.tokens[:, first:last],
            depths=forest.depths[:, :last],
            ancestors=forest.ancestors[:, first:last, :last],
            ahead=first,
        ).hidden
        torch.testing.assert_close(part, whole[:, first:last], **CLOSE)


def test_a_chain_grows_by_unequal_counts(target) -> None:
    batch, tokens = some(target), torch.tensor(words(3, *[5] * 6))
    whole = target.step(batch, tokens).hidden
    target.step(batch, tokens[:, :2])
    counts = torch.tensor([3, 1, 2, 3, 3, 2])
    part = target.step(batch, tokens[:, 2:], counts=counts, ahead=2).hidden[0]
    expected = torch.cat([whole[row, 2 : 2 + count] for row, count in enumerate(counts.tolist())])
    torch.testing.assert_close(part, expected, **CLOSE)


def test_committed_tokens_can_be_run_again(target) -> None:
    batch, tokens = some(target), torch.tensor(words(3, *[5] * 6))
    rows = torch.arange(6)
    whole = target.step(batch, tokens).hidden
    batch.commit(rows, 5)
    again = target.step(batch, tokens[:, 2:], behind=3).hidden
    torch.testing.assert_close(again, whole[:, 2:], **CLOSE)
    assert batch.used.tolist() == [9] * 6
    with pytest.raises(ValueError, match="10 tokens behind"):
        target.step(batch, tokens, behind=10)


def test_rows_without_a_prompt_take_all_by_steps(target) -> None:
    dense = target.prefill([SkipSet()], PROMPTS, slots=10)
    batch = target.open(2, slots=30)
    counts = torch.tensor([len(prompt) for prompt in PROMPTS])
    padded = torch.tensor([prompt + [0] * (12 - len(prompt)) for prompt in PROMPTS])
    hidden = target.step(batch, padded, counts=counts).hidden[0]
    last = hidden[counts.cumsum(0) - 1]
    torch.testing.assert_close(target.logits(last), dense.logits[0], **CLOSE)
    batch.commit(torch.arange(2), counts)
    tokens = torch.tensor(words(3, 4, 4))
    torch.testing.assert_close(target.step(batch, tokens).hidden, target.step(dense, tokens).hidden, **CLOSE)
    batch.commit(torch.arange(2), 4)
    dense.commit(torch.arange(2), 4)
    one, other = batch.take([1]), dense.take([1])
    token = torch.tensor(words(4, 1))
    torch.testing.assert_close(target.step(one, token).hidden, target.step(other, token).hidden, **CLOSE)


def test_what_a_forward_could_not_compute_does_not_stay(tiny_target) -> None:
    target = tiny_target("llama")
    batch = target.prefill([SkipSet()], PROMPTS, slots=30)
    target.step(batch, torch.tensor(words(4, 12, 12)))
    batch.commit(torch.arange(2), torch.tensor([2, 12]))
    tokens = torch.tensor([[5], [6]])
    expected = target.step(batch, tokens).hidden
    # Where the other row has committed slots, this one leaves numbers that are none.
    lost = Detour(inject={3: torch.full((1, 8, 32), torch.inf)})
    target.step(batch, torch.tensor(words(5, 8)), rows=torch.tensor([0]), detour=lost)
    torch.testing.assert_close(target.step(batch, tokens).hidden, expected, **CLOSE)
