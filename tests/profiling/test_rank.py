from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch

from skipmap.calibration.items import Item
from skipmap.errors import ModelFailure
from skipmap.profiling import rank
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.rank import rank_group, rank_texts
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from tests.profiling.conftest import LAYERS, build_model
from tests.profiling.strategies.driving import GOOD, drive, spec_of

SINGLES = [SkipSet((block,)) for block in range(LAYERS)]
KINDS = ["llama", "gemma"]


def texts_of(count=5, seed=3):
    """Token ids of texts of different lengths."""
    rng = random.Random(seed)
    return [[1, *rng.choices(range(3, 40), k=rng.randint(4, 30))] for _ in range(count)]


def values(rankings):
    """Figures by skip set."""
    return {ranking.skip: ranking.value for ranking in rankings}


def log_perplexity(model, texts):
    """Mean negative log-likelihood of a token by plain Hugging Face forwards, one text at a time."""
    total, tokens = 0.0, 0
    for text in texts:
        ids = torch.tensor([text])
        with torch.inference_mode():
            logits = model(ids).logits[0].double().log_softmax(-1)
        total -= float(logits[torch.arange(len(text) - 1), ids[0, 1:]].sum())
        tokens += len(text) - 1
    return total / tokens


@pytest.mark.parametrize("kind", KINDS)
def test_influence_is_that_of_hugging_face_hidden_states(make_subject, kind):
    texts = texts_of()
    model = build_model(kind).eval()
    moved, tokens = torch.zeros(LAYERS, dtype=torch.float64), 0
    for text in texts:
        # States by hooks: the last of Hugging Face's own list is behind the final norm.
        states = []
        hooks = [
            layer.register_forward_hook(
                lambda module, given, out, states=states: states.append((given[0][0], out[0]))
            )
            for layer in model.base_model.layers
        ]
        with torch.inference_mode():
            outputs = model(torch.tensor([text]), output_hidden_states=True)
        for hook in hooks:
            hook.remove()
        # Up to the last block, both are the same thing.
        for block, (entering, _) in enumerate(states):
            assert torch.allclose(entering, outputs.hidden_states[block][0], atol=1e-6)
        for block, (entering, leaving) in enumerate(states):
            moved[block] += (1 - torch.cosine_similarity(entering.double(), leaving.double(), dim=-1)).sum()
        tokens += len(text)
    found = values(rank_group(make_subject(kind), "shortgpt", SINGLES, texts, 4096))
    assert list(found) == SINGLES
    assert list(found.values()) == pytest.approx((moved / tokens).tolist(), abs=1e-6)
    # The model's quiet blocks are what is found to do least.
    assert set(sorted(SINGLES, key=found.__getitem__)[:3]) == {SkipSet((b,)) for b in (1, 2, 3)}


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_is_that_of_a_model_without_the_blocks(make_subject, without_blocks, kind):
    texts = texts_of()
    group = [DENSE, SkipSet((0,)), SkipSet((1, 3)), SkipSet((2,)), SkipSet((2, 3, 4))]
    found = values(rank_group(make_subject(kind), "sleb", group, texts, 4096))
    for skip in group:
        assert found[skip] == pytest.approx(
            log_perplexity(without_blocks(build_model(kind), skip), texts), abs=1e-4
        )


@pytest.mark.parametrize("kind", KINDS)
def test_sleb_is_a_loop_over_models_with_removed_blocks(make_subject, without_blocks, kind):
    texts, model, subject = texts_of(), build_model(kind), make_subject(kind)
    known = {}

    def rank_of(skip):
        if skip not in known:
            known.update(values(rank_group(subject, "sleb", [skip], texts, 4096)))
        return known[skip]

    search = drive(spec_of("sleb", max_depth=3), LAYERS, lambda skip: GOOD, rank_of)
    taken, path = [], []
    for _ in range(3):
        tried = {
            block: log_perplexity(without_blocks(model, [*taken, block]), texts)
            for block in range(1, LAYERS - 1)
            if block not in taken
        }
        taken = [*taken, min(tried, key=tried.__getitem__)]
        path.append(sorted(taken))
    assert [step["skip"] for step in search.outcome.found["path"]][1:] == path


@pytest.mark.parametrize("strategy", ["shortgpt", "sleb"])
def test_batches_and_groups_change_no_figure(make_subject, monkeypatch, strategy):
    subject, texts = make_subject("gemma"), texts_of(7)
    whole = values(rank_group(subject, strategy, SINGLES, texts, 65536))
    assert values(rank_group(subject, strategy, SINGLES, texts, 256)) == pytest.approx(whole, abs=1e-6)
    alone = [values(rank_group(subject, strategy, [skip], texts, 4096)) for skip in SINGLES]
    assert {skip: value for found in alone for skip, value in found.items()} == pytest.approx(whole, abs=1e-6)
    monkeypatch.setattr(rank, "LOGITS_AT_ONCE", 1)
    heard = []
    monkeypatch.setattr(subject.target, "hook", heard.append)
    assert values(rank_group(subject, strategy, SINGLES, texts, 65536)) == pytest.approx(whole, abs=1e-6)
    # Leases and cancels hang on the hook, so no piece of the work may be long without it.
    scored = sum(len(text) - 1 for text in texts) * len(SINGLES)
    assert sum(progress.tokens == 1 for progress in heard) == (scored if strategy == "sleb" else 0)


@pytest.mark.parametrize("strategy", ["shortgpt", "sleb"])
def test_prefill_policy_of_the_job_changes_no_figure(make_subject, strategy):
    one, other = (make_subject("gemma", prefill=policy) for policy in ("sparse", "dense"))
    texts = texts_of()
    assert rank_group(one, strategy, SINGLES, texts, 4096) == rank_group(
        other, strategy, SINGLES, texts, 4096
    )


@pytest.mark.parametrize("strategy", ["shortgpt", "sleb"])
def test_out_of_memory_halves_the_group_then_the_texts(make_subject, monkeypatch, strategy):
    subject, texts = make_subject(), texts_of(4)
    whole = values(rank_group(subject, strategy, SINGLES[:2], texts, 65536))
    prefill, shapes = subject.target.prefill, []

    def tight(skips, prompts, **options):
        rows = len(options.get("capture") or skips) * len(prompts)
        shapes.append(rows)
        if rows > (4 if strategy == "shortgpt" else 2):
            raise torch.OutOfMemoryError("no room")
        return prefill(skips, prompts, **options)

    monkeypatch.setattr(subject.target, "prefill", tight)
    assert values(rank_group(subject, strategy, SINGLES[:2], texts, 65536)) == pytest.approx(whole, abs=1e-6)
    assert max(shapes) > min(shapes)

    def no_room(*skips, **options):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(subject.target, "prefill", no_room)
    with pytest.raises(ModelFailure, match="too little memory for a single prompt"):
        rank_group(subject, strategy, SINGLES, texts, 4096)


def test_figure_that_is_no_number_is_refused(make_subject, monkeypatch):
    subject = make_subject()
    logits = subject.target.logits
    monkeypatch.setattr(subject.target, "logits", lambda hidden: logits(hidden) * math.nan)
    with pytest.raises(ModelFailure, match=r"^strategy sleb: the ranking figure of \{\} is nan, no finite"):
        rank_group(subject, "sleb", [DENSE], texts_of(), 4096)


def test_texts_without_a_second_token_are_refused(make_subject):
    with pytest.raises(ModelFailure, match="no calibration text has a second token"):
        rank_group(make_subject(), "sleb", [DENSE], [[1], [1]], 4096)


def test_texts_are_prompts_with_the_dense_answers(make_subject, make_items):
    # No end token and no stop string: every token of the answer is in its text.
    subject = make_subject(end=frozenset())
    items = make_items(4)
    (dense,) = evaluate(subject, [DENSE], items, 65536)
    texts = rank_texts(subject, items, dense)
    for item, text, record in zip(items, texts, dense.prompts, strict=True):
        prompt = subject.prompt(item)
        assert text[: len(prompt)] == prompt
        assert subject.decode(text[len(prompt) :]) == record.text
    # Whatever order the rows are stored in.
    turned = replace(dense, prompts=tuple(reversed(dense.prompts)))
    assert rank_texts(subject, items, turned) == texts


def test_talks_have_the_answer_that_is_stored_or_the_first_prompt_alone(make_subject):
    subject = make_subject(end=frozenset())
    first = Item("a", ("w1 w2 w3", "w4"), (("w5",), ()))
    last = Item("b", ("w1 w2 w3", "w4"), ((), ("w5",)))
    (dense,) = evaluate(subject, [DENSE], [first, last], 65536)
    with_answer, alone = rank_texts(subject, [first, last], dense)
    assert alone == subject.prompt(last)
    assert subject.decode(with_answer[len(alone) :]) == dense.prompts[0].text != ""
