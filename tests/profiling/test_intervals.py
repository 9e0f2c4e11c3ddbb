from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from skipmap.calibration.items import Item
from skipmap.metrics.registry import get_metric
from skipmap.profiling.intervals import RESAMPLES, SEED, change, interval, resample
from skipmap.profiling.records import PromptRecord

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat", "rug", "red", "big"]


def record(index, text="", stats=(0.0,), *, steps=0, emitted=0, accepted=0, new_tokens=0, seconds=None):
    return PromptRecord(f"p{index}", steps, emitted, accepted, new_tokens, stats, text, seconds)


def picks_of(prompts):
    """The prompts that each resample draws, by the rule: one seeded draw of indices with repetition."""
    return np.random.default_rng(SEED).integers(0, prompts, size=(RESAMPLES, prompts))


def test_bleu_is_recomputed_from_the_resampled_texts():
    rng = random.Random(3)
    references = [" ".join(rng.choices(WORDS, k=12)) for _ in range(9)]
    texts = [
        " ".join(w if rng.random() < 0.8 else rng.choice(WORDS) for w in r.split()[: rng.randint(6, 12)])
        for r in references
    ]
    items = [Item(f"p{i}", ("x",), ((reference,),)) for i, reference in enumerate(references)]
    bleu = get_metric("bleu")
    prompts = [
        record(i, t, bleu.stats(t, item)) for i, (t, item) in enumerate(zip(texts, items, strict=True))
    ]
    found = resample(prompts, bleu).metric
    assert found.shape == (RESAMPLES,)
    for draw in (0, 17, 999):
        picked = picks_of(9)[draw]
        expected = BLEU().corpus_score([texts[i] for i in picked], [[references[i] for i in picked]])
        assert found[draw] == pytest.approx(expected.score / 100, abs=1e-12)


def test_accept_length_is_a_quotient_of_sums():
    prompts = [
        record(0, steps=10, emitted=30, accepted=20, new_tokens=31, seconds=2.0),
        record(1, steps=1, emitted=1, accepted=0, new_tokens=2, seconds=0.5),
        record(2, steps=0, new_tokens=1, seconds=0.1),
    ]
    found = resample(prompts, get_metric("f1"))
    for draw in range(20):
        picked = [prompts[i] for i in picks_of(3)[draw]]
        steps = sum(p.steps for p in picked)
        assert found.accept_length[draw] == (sum(p.emitted for p in picked) / steps if steps else 0.0)
        assert found.accepted_drafts[draw] == (sum(p.accepted for p in picked) / steps if steps else 0.0)
        assert found.tokens_per_second[draw] == pytest.approx(
            sum(p.new_tokens for p in picked) / sum(p.seconds for p in picked)
        )


def test_draws_are_paired():
    rng = random.Random(0)
    dense = [record(i, steps=10, emitted=rng.randint(10, 60), stats=(rng.random(),)) for i in range(12)]
    # Every prompt loses exactly one token a step and a tenth of the metric: paired draws see no noise at all.
    sparse = [
        record(i, steps=10, emitted=p.emitted - 10, stats=(p.stats[0] - 0.1,)) for i, p in enumerate(dense)
    ]
    metric = get_metric("f1")
    a, b = resample(dense, metric), resample(sparse, metric)
    assert change(a, b, lambda r: r.accept_length) == pytest.approx((-1.0, -1.0))
    assert change(a, b, lambda r: r.metric) == pytest.approx((-0.1, -0.1))
    low, high = interval(a.accept_length)
    assert high - low > 0.5


def test_ratio_is_sparse_over_dense():
    dense = [record(i, new_tokens=10, seconds=2.0) for i in range(4)]
    sparse = [record(i, new_tokens=10, seconds=1.0) for i in range(4)]
    metric = get_metric("f1")
    a, b = resample(dense, metric), resample(sparse, metric)
    assert change(a, b, lambda r: r.tokens_per_second, ratio=True) == (2.0, 2.0)


def test_interval_is_the_central_95_percent():
    assert interval(np.arange(1001.0)) == pytest.approx((25.0, 975.0))
    one = resample([record(0, steps=2, emitted=5)], get_metric("f1"))
    assert interval(one.accept_length) == (2.5, 2.5)


def test_same_prompts_give_the_same_interval():
    prompts = [record(i, steps=3, emitted=3 + i, stats=(i / 5,)) for i in range(5)]
    first, second = (interval(resample(prompts, get_metric("f1")).metric) for _ in range(2))
    assert first == second
