"""What a reader gives after any text equals what the model gives when it computes all of it anew."""

from __future__ import annotations

import gc
import random
import weakref

import pytest
import torch

from skipmap.drafts.small.reader import Reader, Reading
from skipmap.target import steps
from skipmap.target.model import TargetModel
from skipmap.tree import ROOT

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
FAMILIES = ["llama", "gemma3"]


def words(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(97) for _ in range(length)]


def rows(rng: random.Random) -> list[list[int]]:
    """Texts of two configurations with three prompts each, and a first token of their own."""
    prompts = [words(rng, length) for length in (9, 4, 12)]
    return [[*prompt, rng.randrange(97)] for _ in range(2) for prompt in prompts]


@pytest.fixture(params=["row by row", "on a grid"])
def _attention(request, monkeypatch) -> None:
    if request.param == "on a grid":
        monkeypatch.setattr(steps, "ALONE_ON", frozenset())


@pytest.fixture
def watch(tiny_target):
    """A reader of the tiny model and the forwards that it makes."""

    def make(family: str) -> tuple[Reader, list]:
        seen: list = []
        return Reader(tiny_target(family, hook=seen.append), 97), seen

    return make


def change(rng: random.Random, text: list[int], settled: int) -> None:
    """Take some of the last tokens back, the first ``settled`` ones apart, and write some on."""
    del text[max(settled, len(text) - rng.randrange(4)) :]
    text += words(rng, rng.randint(1, 4))


@pytest.mark.usefixtures("_attention")
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_those_of_the_whole_text(family, watch, tiny_model, next_logits):
    rng, (reader, _) = random.Random(1), watch(family)
    texts, readings = rows(rng), [Reading() for _ in range(6)]
    going, settled = list(range(6)), [len(text) for text in texts]
    for turn in range(9):
        last = [min(rng.randint(1, 3), 1 + len(texts[i]) - settled[i]) for i in going]
        found = reader.read([readings[i] for i in going], [texts[i] for i in going], [60] * len(going), last)
        expected = [
            next_logits(tiny_model(family), texts[i])[-count:] for i, count in zip(going, last, strict=True)
        ]
        torch.testing.assert_close(found, torch.cat(expected), **CLOSE)
        assert [readings[i].held for i in going] == [texts[i] for i in going]
        if turn in (2, 4, 6):
            going.pop(rng.randrange(len(going)))
        rng.shuffle(going)
        for i in going:
            change(rng, texts[i], settled[i])
    (shelf,) = {readings[i].shelf for i in going}
    assert shelf.batch.rows == 6


def test_only_what_is_missing_is_run(watch):
    rng, (reader, seen) = random.Random(2), watch("llama")
    texts, readings = rows(rng), [Reading() for _ in range(6)]
    reader.read(readings, texts, [20] * 6)
    # Three prompts stand for two configurations.
    assert [(report.kind, report.rows) for report in seen] == [("prefill", 3), ("step", 6)]
    seen.clear()
    for text in texts:
        text += [5, 6]
    reader.read(readings, texts, [20] * 6)
    texts[0] += [7, 8, 9]
    for text in texts[1:]:
        text[-1] = 10
    reader.read(readings, texts, [20] * 6)
    assert [report.tokens for report in seen] == [12, 3 + 5]


def test_what_few_are_left_moves_into_a_batch_of_its_own(watch, tiny_model, next_logits):
    rng, (reader, seen) = random.Random(3), watch("gemma3")
    texts, readings = rows(rng), [Reading() for _ in range(6)]
    reader.read(readings, texts, [20] * 6)
    for text in texts:
        text += words(rng, 2)
    for left in ([1, 4, 5], [1, 5], [5]):
        reader.narrow([readings[i] for i in left])
        found = reader.read([readings[i] for i in left], [texts[i] for i in left], [20] * 6)
        for i, logits in zip(left, found, strict=True):
            torch.testing.assert_close(logits, next_logits(tiny_model("gemma3"), texts[i])[-1], **CLOSE)
            texts[i] += words(rng, 1)
    assert readings[5].shelf.batch.rows == 2
    assert readings[4].shelf is None
    seen.clear()
    # One that only sits a forward out is not left behind.
    texts[1].append(3)
    reader.read([readings[1]], [texts[1]], [20])
    assert [report.kind for report in seen] == ["step"]
    seen.clear()
    # A row that was left behind is read again, on a shelf of its own.
    texts[4].append(3)
    found = reader.read([readings[5], readings[4]], [texts[5], texts[4]], [20] * 2)
    for i, logits in zip((5, 4), found, strict=True):
        torch.testing.assert_close(logits, next_logits(tiny_model("gemma3"), texts[i])[-1], **CLOSE)
    assert sorted(report.kind for report in seen) == ["prefill", "step", "step"]


def test_readings_that_were_never_read_have_nothing_to_leave(watch):
    reader, seen = watch("llama")
    reader.narrow([Reading(), Reading()])
    assert not seen


def test_memory_goes_with_the_last_reading(watch):
    reader, _ = watch("llama")
    readings = [Reading(), Reading()]
    reader.read(readings, [[1, 2, 3], [4, 5]], [10] * 2)
    batch = weakref.ref(readings[0].shelf.batch)
    gc.disable()
    try:
        del readings[0]
        assert batch() is not None
        del readings[0]
        assert batch() is None
    finally:
        gc.enable()


def test_a_text_that_does_not_go_on_from_the_prompt_is_read_anew(watch, tiny_model, next_logits):
    rng, (reader, _) = random.Random(4), watch("llama")
    text, other, reading = words(rng, 9), words(rng, 7), Reading()
    reader.read([reading], [text], [10])
    found = reader.read([reading], [other], [10])
    torch.testing.assert_close(found[0], next_logits(tiny_model("llama"), other)[-1], **CLOSE)


@pytest.mark.usefixtures("_attention")
@pytest.mark.parametrize("family", FAMILIES)
def test_trees_grow_below_texts_and_their_branches_are_kept(family, watch, tiny_model, next_logits):
    rng, (reader, seen) = random.Random(5), watch(family)
    texts, readings = rows(rng), [Reading() for _ in range(6)]
    for _ in range(3):
        reader.read(readings, texts, [80] * 6)
        paths = [{ROOT: []} for _ in readings]
        for level in range(3):
            # Not every row has nodes on every level, but all have some on the first.
            going = [i for i in range(6) if not level or rng.random() < 0.6] or [0]
            new = [
                [(rng.randrange(97), rng.choice(list(paths[i]))) for _ in range(rng.randint(1, 3))]
                for i in going
            ]
            found, places = reader.grow([readings[i] for i in going], new)
            rest = iter(found)
            for i, nodes, own in zip(going, new, places, strict=True):
                for token, parent in nodes:
                    path = [*paths[i][parent], token]
                    expected = next_logits(tiny_model(family), [*texts[i], *path])[-1]
                    torch.testing.assert_close(next(rest), expected, **CLOSE)
                for (token, parent), place in zip(nodes, own, strict=True):
                    paths[i][place] = [*paths[i][parent], token]
            assert not list(rest)
        kept = [max(own.values(), key=len) for own in paths]
        for i, path in enumerate(kept):
            texts[i] += [*path[: len(path) - i % 2], rng.randrange(97)]
        seen.clear()
        found = reader.read(readings, texts, [80] * 6)
        assert seen[0].tokens == 6
        for text, logits in zip(texts, found, strict=True):
            torch.testing.assert_close(logits, next_logits(tiny_model(family), text)[-1], **CLOSE)


def test_room_ends_with_the_context(build):
    model = build(0, max_position_embeddings=12)
    reader = Reader(TargetModel(model), 97)
    assert [reader.room([1] * length) for length in (10, 12, 13, 40)] == [3, 1, 0, 0]
    assert reader.read([Reading()], [[1] * 12], [0]).shape == (1, 97)


@pytest.mark.parametrize(("size", "wanted"), [(100, 97), (90, 97)])
def test_logits_are_those_of_the_targets_tokens(size, wanted, build, next_logits):
    model = build(0, vocab_size=size)
    text, reading, both = [3, 95, 20], Reading(), min(size, wanted)
    expected = next_logits(model, [min(token, size - 1) for token in text])[-1]
    reader = Reader(TargetModel(model), wanted)
    found = reader.read([reading], [text], [8])[0]
    torch.testing.assert_close(found[:both], expected[:both], **CLOSE)
    assert found.shape == (wanted,)
    assert bool((found[both:] == -torch.inf).all())
    assert reader.grow([reading], [[(96, ROOT)]])[0].shape == (1, wanted)
