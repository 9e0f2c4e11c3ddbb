"""Oracle: logits of a plain Hugging Face model from which the skipped blocks were removed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target import model as target_model

FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
VOCABULARY, LAYERS = 97, 6
MOST_SKIPPED = SkipSet.of(range(1, LAYERS))

Oracle = Callable[[SkipSet, Sequence[int]], Tensor]


def words(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(VOCABULARY) for _ in range(length)]


def skip_sets(rng: random.Random, count: int) -> list[SkipSet]:
    drawn = {SkipSet.of(rng.sample(range(LAYERS), rng.randrange(LAYERS))) for _ in range(count)}
    return sorted(drawn | {SkipSet.of([0]), SkipSet.of([LAYERS - 1]), MOST_SKIPPED})


def assert_equal(got: Tensor, expected: Tensor) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 1e-4


@pytest.fixture
def oracle(tiny_model, without_blocks) -> Callable[[str], Oracle]:
    """Logits [tokens, vocabulary] of the family's model without the skipped blocks."""

    def of(family: str) -> Oracle:
        pruned = {}

        def logits(skip: SkipSet, tokens: Sequence[int]) -> Tensor:
            if skip not in pruned:
                pruned[skip] = without_blocks(tiny_model(family), skip)
            with torch.inference_mode():
                return pruned[skip](torch.tensor([tokens])).logits[0]

        return logits

    return of


def test_oracle_tells_skip_sets_apart(oracle):
    tokens = list(range(20))
    for family in FAMILIES:
        logits = [oracle(family)(SkipSet.of(s), tokens)[-1] for s in ([], [0], [3], [5], range(1, 6))]
        gaps = [(a - b).abs().max() for i, a in enumerate(logits) for b in logits[:i]]
        assert min(gaps) > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_one_row_equals_the_model_without_the_blocks(family, tiny_target, oracle):
    rng = random.Random(0)
    target, reference = tiny_target(family), oracle(family)
    for skip in skip_sets(rng, 3):
        tokens = words(rng, 21)
        expected = reference(skip, tokens)
        batch = target.prefill([skip], [tokens[:12]], slots=9)
        assert_equal(batch.logits[0, 0], expected[11])
        for at in range(12, 15):
            output = target.step(batch, torch.tensor([[tokens[at]]]))
            assert_equal(target.logits(output.hidden)[0, 0], expected[at])
            batch.commit(torch.tensor([0]), 1)
        output = target.step(batch, torch.tensor([tokens[15:]]))
        assert_equal(target.logits(output.hidden)[0], expected[15:])


@pytest.mark.parametrize("common", [0, 18], ids=["no prefix", "common prefix"])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_a_mixed_batch_equal_the_model_without_the_blocks(family, common, tiny_target, oracle):
    rng = random.Random(common)
    target, reference = tiny_target(family), oracle(family)
    start = words(rng, common)
    prompts = [start + words(rng, length) for length in (5, 14, 9)]
    skips = skip_sets(rng, 5)
    batch = target.prefill(skips, prompts, slots=12)
    assert batch.prefix_length == common
    texts = [prompt + words(rng, 12) for _ in skips for prompt in prompts]
    rows = [(skip, len(prompt)) for skip in skips for prompt in prompts]
    expected = [reference(skip, text)[n - 1 :] for (skip, n), text in zip(rows, texts, strict=True)]
    assert_equal(batch.logits.flatten(0, 1), torch.stack([e[0] for e in expected]))

    def take(chosen: list[int], count: int, keep: list[int]) -> None:
        """Step ``chosen`` rows by ``count`` tokens, compare, and keep some of them."""
        starts = [rows[r][1] + int(batch.used[r]) for r in chosen]
        tokens = torch.tensor([texts[r][s : s + count] for r, s in zip(chosen, starts, strict=True)])
        output = target.step(batch, tokens, rows=torch.tensor(chosen))
        wanted = [expected[r][int(batch.used[r]) + 1 :][:count] for r in chosen]
        assert_equal(target.logits(output.hidden), torch.stack(wanted))
        for r, kept in zip(chosen, keep, strict=True):
            batch.commit(torch.tensor([r]), kept)

    everyone = list(range(batch.rows))
    take(everyone, 1, [1] * batch.rows)
    take(everyone[::2], 1, [1] * len(everyone[::2]))
    take(everyone, 3, [1 + r % 3 for r in everyone])
    some = sorted(rng.sample(everyone, 7))
    take(some, 2, [2] * len(some))
    take([everyone[-1]], 1, [1])
    take(everyone, 4, [4] * batch.rows)


def test_all_rows_need_not_start_from_the_same_prompts(tiny_target, oracle):
    rng = random.Random(3)
    target, reference = tiny_target("gemma3"), oracle("gemma3")
    skips = skip_sets(rng, 2)
    prompts = [[words(rng, rng.randrange(1, 20)) for _ in range(2)] for _ in skips]
    batch = target.prefill(skips, prompts, slots=3)
    more = torch.randint(VOCABULARY, (batch.rows, 3))
    logits = target.logits(target.step(batch, more).hidden)
    for c, skip in enumerate(skips):
        for p, prompt in enumerate(prompts[c]):
            row = c * 2 + p
            expected = reference(skip, prompt + more[row].tolist())[len(prompt) - 1 :]
            assert_equal(batch.logits[c, p], expected[0])
            assert_equal(logits[row], expected[1:])


def test_long_prefill_is_cut_into_forwards_that_agree(tiny_target, oracle, monkeypatch):
    rng = random.Random(4)
    reference = oracle("mistral")
    prompts = [words(rng, length) for length in (9, 3, 12, 7, 1)]
    skips = skip_sets(rng, 3)
    seen = []
    monkeypatch.setitem(target_model.PREFILL_TOKENS_PER_FORWARD, "cpu", 200)
    target = tiny_target("mistral", hook=seen.append)
    batch = target.prefill(skips, prompts, slots=1)
    assert len(seen) > 1
    for c, skip in enumerate(skips):
        for p, prompt in enumerate(prompts):
            assert_equal(batch.logits[c, p], reference(skip, prompt)[-1])


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("common", [0, 18], ids=["no prefix", "common prefix"])
def test_dense_prefill_runs_the_whole_model_over_the_prompt_alone(
    family, common, tiny_model, tiny_target, without_blocks
):
    rng = random.Random(5)
    dense = tiny_model(family)
    start = words(rng, common)
    prompts = [start + words(rng, length) for length in (4, 15)]
    skips = skip_sets(rng, 3)
    target = tiny_target(family)
    batch = target.prefill(skips, prompts, slots=6, policy="dense")
    more = torch.randint(VOCABULARY, (batch.rows, 6))
    first = target.logits(target.step(batch, more[:, :4]).hidden)
    batch.commit(torch.arange(batch.rows), 4)
    second = target.logits(target.step(batch, more[:, 4:]).hidden)
    logits = torch.cat([first, second], dim=1)
    for p, prompt in enumerate(prompts):
        with torch.inference_mode():
            after_prompt = dense(torch.tensor([prompt]), use_cache=True)
        for c, skip in enumerate(skips):
            row = c * len(prompts) + p
            assert_equal(batch.logits[c, p], after_prompt.logits[0, -1])
            # The pruned model goes on from what the dense one has stored for the blocks that are left.
            past = deepcopy(after_prompt.cache)
            past.layers = [layer for block, layer in enumerate(past.layers) if block not in skip]
            with torch.inference_mode():
                expected = without_blocks(dense, skip)(more[None, row], cache=past)
            assert_equal(logits[row], expected.logits[0])


def test_captured_block_inputs_are_the_hidden_states_before_the_block(
    tiny_model, tiny_target, without_blocks
):
    dense, target = tiny_model("qwen3"), tiny_target("qwen3")
    tokens = list(range(30, 46))
    skips = [SkipSet(), SkipSet.of([2])]
    batch = target.prefill(skips, [tokens[:10]], slots=6)
    output = target.step(batch, torch.tensor([tokens[10:]] * 2), capture=frozenset({0, 2, 5}))
    assert set(output.block_inputs) == {0, 2, 5}
    for row, skip in enumerate(skips):
        with torch.inference_mode():
            states = without_blocks(dense, skip)(
                torch.tensor([tokens]), output_hidden_states=True
            ).hidden_states
        for block, hidden in output.block_inputs.items():
            assert_equal(hidden[row], states[block - len(skip.before(block))][0, 10:])


def test_one_prompt_may_be_the_beginning_of_another(tiny_target, oracle):
    rng = random.Random(6)
    start = words(rng, 20)
    skips = skip_sets(rng, 2)
    for prompts in ([start, [*start, 7]], [start, start]):
        batch = tiny_target().prefill(skips, prompts, slots=1)
        assert batch.prefix_length == 19
        for c, skip in enumerate(skips):
            for p, prompt in enumerate(prompts):
                assert_equal(batch.logits[c, p], oracle("llama")(skip, prompt)[-1])


def test_logits_are_capped_where_the_model_caps_them(tiny_model, copy_model):
    capped = copy_model(tiny_model("gemma3"))
    capped.config.final_logit_softcapping = 2.0
    with torch.inference_mode():
        expected = capped(torch.arange(12)[None]).logits[0, -1]
    assert expected.abs().max() < 2.0
    got = target_model.TargetModel(capped).prefill([SkipSet()], [list(range(12))], slots=1).logits
    assert_equal(got[0, 0], expected)


def test_wrapped_model_still_runs_as_plain_hugging_face(tiny_target, tiny_model):
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        assert_equal(tiny_target("gemma3").model(tokens).logits, tiny_model("gemma3")(tokens).logits)


@pytest.mark.parametrize(
    ("skips", "prompts", "says"),
    [
        ([[6]], [[1]], "block 6 does not exist"),
        ([range(6)], [[1]], "at least one must run"),
        ([[0]], [[1], []], "has no tokens"),
        ([[0]], [[], [1]], "has no tokens"),
        ([[0]], [[[1]], [[]]], "has no tokens"),
        ([[0]], [[1] * 257], "context of 256"),
    ],
    ids=["no such block", "all blocks", "empty", "empty first", "empty own", "too long"],
)
def test_prefill_refuses_what_cannot_run(
    skips: list[Iterable[int]], prompts: list[list[int]], says: str, tiny_target
):
    with pytest.raises(InvalidInput, match=says):
        tiny_target().prefill([SkipSet.of(s) for s in skips], prompts, slots=1)


def test_wrong_calls_are_refused(tiny_target):
    target = tiny_target()
    with pytest.raises(ValueError, match="ascending"):
        target.prefill([SkipSet.of([1]), SkipSet.of([0])], [[1]], slots=1)
    batch = target.prefill([SkipSet()], [[1]], slots=2)
    with pytest.raises(ValueError, match="3 slots needed, 2 allocated"):
        target.step(batch, torch.tensor([[1, 2, 3]]))
