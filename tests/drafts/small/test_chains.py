"""Chains against a model that computes everything anew for each token."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from skipmap.drafts.base import DraftContext
from skipmap.drafts.small.chains import Chains, Doubt
from skipmap.drafts.small.inner import Lookup, Smaller
from skipmap.drafts.small.reader import Reader
from skipmap.target.model import TargetModel


def chain(model, next_logits, context: DraftContext, most: int, doubt: Doubt | None = None):
    """A chain and what it was drawn from, by the book."""
    text, rows = list(context.tokens), []
    uniforms = np.random.default_rng(context.seed).random(most)
    for place in range(min(most, context.remaining)):
        logits = next_logits(model, text)[-1]
        q = (logits / (context.temperature or 1)).softmax(-1).double()
        unsure = doubt is not None and float(logits.softmax(-1).max()) < doubt.below
        if unsure and not doubt.kept:
            break
        rows.append(q)
        drawn = int((q.cumsum(0) > uniforms[place] * q.sum()).nonzero()[0])
        text.append(drawn if context.temperature else int(logits.argmax()))
        if unsure:
            break
    return text[len(context.tokens) :], rows


@pytest.fixture
def contexts():
    """Three configurations with two prompts each, somewhere in their answers."""
    rng = random.Random(8)
    prompts = [[rng.randrange(97) for _ in range(length)] for length in (5, 11)]
    texts = [[*prompt, rng.randrange(97)] for _ in range(3) for prompt in prompts]
    return [DraftContext(text, 30 - row, seed=row) for row, text in enumerate(texts)]


def emit(rng, contexts, trees):
    """As if the target had accepted some of each chain and gone on with a token of its own."""
    after = []
    for context, tree in zip(contexts, trees, strict=True):
        kept = tree.tokens[: rng.randint(0, len(tree))]
        text = [*context.tokens, *kept, rng.randrange(97)]
        after.append(
            replace(context, tokens=text, remaining=context.remaining - len(kept) - 1, seed=context.seed + 99)
        )
    return after


@pytest.fixture(params=["alone", "looked up", "smaller"])
def inner(request, build):
    """What guesses at the model's own tokens; it must not matter."""
    other = Reader(TargetModel(build(5)), 97)
    return {"alone": None, "looked up": Lookup(3), "smaller": Smaller(other, 2)}[request.param]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("doubt", [None, Doubt(0.3, kept=True), Doubt(0.2, kept=False)])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_chains_are_the_models_own(
    family, doubt, temperature, inner, contexts, tiny_target, tiny_model, next_logits
):
    rng = random.Random(3)
    contexts = [replace(context, temperature=temperature) for context in contexts]
    chains = Chains(Reader(tiny_target(family), 97), doubt, inner)
    states, lengths = [chains.fresh(0) for _ in contexts], set()
    for _ in range(3):
        most = [rng.randint(0, 6) for _ in contexts]
        trees = chains.draft(states, contexts, most)
        for context, tree, count in zip(contexts, trees, most, strict=True):
            tokens, rows = chain(tiny_model(family), next_logits, context, count, doubt)
            assert list(tree.tokens) == tokens
            assert tree.is_chain
            lengths.add(len(tokens) - count)
            assert len(tree.drawn_from) == (len(tokens) if temperature else 0)
            for parent, q in tree.drawn_from.items():
                torch.testing.assert_close(q.double(), rows[parent + 1], rtol=1e-4, atol=1e-5)
        contexts = emit(rng, contexts, trees)
        going = [i for i in range(len(contexts)) if rng.random() < 0.9]
        contexts, states = [contexts[i] for i in going], [states[i] for i in going]
    assert (len(lengths) > 1) == (doubt is not None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rows_of_different_temperature_share_forwards(temperature, contexts, tiny_target):
    seen = []
    target = tiny_target("llama", hook=seen.append)
    chains = Chains(Reader(target, 97))
    mixed = [
        replace(context, temperature=1.0 - temperature if row % 2 else temperature)
        for row, context in enumerate(contexts)
    ]
    together = chains.draft([chains.fresh(0) for _ in mixed], mixed, [4] * 6)
    assert len(seen) == 1 + 4
    for context, tree in zip(mixed, together, strict=True):
        assert chains.draft([chains.fresh(0)], [context], [4]) == [tree]


@pytest.mark.parametrize("inner", [False, True])
def test_chains_that_end_early_keep_their_place(inner, contexts, tiny_target, build):
    seen, of_inner = [], []
    smaller = Smaller(Reader(TargetModel(build(5), hook=of_inner.append), 97), 2) if inner else None
    chains = Chains(Reader(tiny_target("llama", hook=seen.append), 97), inner=smaller)
    rng, states = random.Random(6), [chains.fresh(0) for _ in contexts]
    for most in ([3] * 6, [6, 2, 1, 1, 1, 1], [1, 6, 1, 1, 1, 1], [3] * 6):
        seen.clear()
        contexts = emit(rng, contexts, chains.draft(states, contexts, most))
    assert {report.kind for report in seen} == {"step"}
    assert seen[0].rows == 6
    assert [report.kind for report in of_inner].count("prefill") == inner


def test_guesses_save_forwards_where_the_model_repeats_itself(tiny_target, tiny_model, next_logits):
    seen = []
    target = tiny_target("gemma3", hook=seen.append)
    text = [4, 8, 15]
    for _ in range(30):
        text.append(int(next_logits(tiny_model("gemma3"), text)[-1].argmax()))
    context = DraftContext(text, 40)
    alone, looking = Chains(Reader(target, 97)), Chains(Reader(target, 97), inner=Lookup(6))
    expected = alone.draft([alone.fresh(0)], [context], [12])
    forwards = len(seen)
    assert looking.draft([looking.fresh(0)], [context], [12]) == expected
    assert len(seen) - forwards <= forwards / 2


def test_chains_end_with_the_models_context(build):
    reader = Reader(TargetModel(build(0, max_position_embeddings=10)), 97)
    chains = Chains(reader)
    lengths = [
        len(chains.draft([chains.fresh(0)], [DraftContext([1] * length, 50)], [4])[0])
        for length in (6, 7, 8, 10, 11, 30)
    ]
    assert lengths == [4, 4, 3, 1, 0, 0]
