"""Sampled answers of the whole runtime."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM, PreTrainedModel

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import Sampler
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.drafts.registry import draft_names
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from skipmap.tree import ROOT, TokenTree
from tests.ready_drafts import DRAWING, LOSSY, ready_draft
from tests.spread import spread

LIMIT = 20
SETTINGS = [
    ("llama", DecodeOptions(LIMIT, temperature=1.0, seed=1)),
    ("qwen3", DecodeOptions(LIMIT, temperature=0.8, top_p=0.9)),
    ("gemma3", DecodeOptions(LIMIT, temperature=0.8, top_p=0.9, prefill="dense")),
    ("mistral", DecodeOptions(LIMIT, temperature=0.6, top_k=6)),
]


@pytest.mark.parametrize(
    ("name", "family", "options"), spread(sorted({*draft_names()} - DRAWING), SETTINGS, times=2)
)
def test_drafts_do_not_change_the_text(
    family, options, name, tiny_target, make_rule, repeating_prompts, random_skips
):
    target, rule = tiny_target(family), make_rule(LIMIT)
    skips = random_skips(len(family), 2)
    plain = decode(target, skips, repeating_prompts, None, rule, options)
    assert plain != decode(target, skips, repeating_prompts, None, rule, replace(options, temperature=0.0))
    found = decode(target, skips, repeating_prompts, ready_draft(name, target), rule, options)
    assert [[a.token_ids for a in row] for row in found] == [[a.token_ids for a in row] for row in plain]
    assert sum(sum(answer.counts.accepted) for row in found for answer in row) > 0
    for place, (skip, row) in enumerate(zip(skips, found, strict=True)):
        prompt = repeating_prompts[place % 3]
        assert row[place % 3] == generate(target, prompt, skip, ready_draft(name, target), rule, options)


def test_text_depends_on_seed_prompt_and_skip_set_alone(tiny_target, make_rule, repeating_prompts):
    target, rule, options = tiny_target("qwen2"), make_rule(LIMIT), DecodeOptions(LIMIT, temperature=1.0)
    skips = [SkipSet(), SkipSet.of([0]), SkipSet.of([2, 4])]
    texts = decode(target, skips, repeating_prompts, None, rule, options)
    assert len({answer.token_ids for row in texts for answer in row}) == 9
    for c, skip in enumerate(skips):
        assert decode(target, [skip], repeating_prompts[::-1], None, rule, options) == [texts[c][::-1]]
    assert decode(target, skips[1:], repeating_prompts[1:2] * 2, None, rule, options) == [
        [row[1], row[1]] for row in texts[1:]
    ]
    others = decode(target, skips, repeating_prompts, None, rule, replace(options, seed=1))
    for row, other in zip(texts, others, strict=True):
        assert all(a.token_ids != b.token_ids for a, b in zip(row, other, strict=True))


VOCABULARY, WINDOW, BLOCKS_LEFT = 6, 3, 2
SKIPS = [SkipSet.of([0, 1, 3]), SkipSet.of([0, 2, 4])]
TAIL = [4, 1, 0, 3, 5]
"""The end of every prompt. Nothing before it is seen through two blocks with a window of 3."""


@dataclass
class Drawing:
    """Draft that draws siblings on two levels from distributions of its own; says that it drew from ``claimed``."""

    claimed: float = 1.0
    needs: Needs = field(default_factory=Needs)
    tree_size: int = 7

    def fresh(self, previous: object = None) -> None:
        return None

    def propose(self, state: None, context: DraftContext) -> TokenTree:
        rng = np.random.default_rng((context.seed, len(context.tokens), 9))
        tokens, parents, drawn_from = [], [], {}
        for parent in (ROOT, 0, 1):
            last = context.tokens[-1] if parent == ROOT else tokens[parent]
            q = np.arange(1.0, VOCABULARY + 1)[(np.arange(VOCABULARY) + last) % VOCABULARY] ** 2
            q[(last + 2) % VOCABULARY] = 0
            drawn_from[parent] = torch.from_numpy(q**self.claimed)
            for _ in range(2):
                tokens.append(int(rng.choice(VOCABULARY, p=q / q.sum())))
                parents.append(parent)
                q[tokens[-1]] = 0
        return TokenTree(tuple(tokens), tuple(parents), drawn_from)

    def observe(self, state: None, outcome: StepOutcome) -> None:
        pass


@pytest.fixture(scope="module")
def small_model() -> PreTrainedModel:
    torch.manual_seed(2)
    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=BLOCKS_LEFT + 3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        sliding_window=WINDOW,
        max_position_embeddings=64,
        initializer_range=0.4,
        eos_token_id=None,
        bos_token_id=None,
    )
    return MistralForCausalLM(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def exact(small_model, without_blocks):
    """Probabilities of the first three tokens by Hugging Face's model, which does not see a prompt's head."""

    def probabilities(skip: SkipSet, options: DecodeOptions) -> dict[tuple[int, ...], float]:
        pruned, warp = without_blocks(small_model, skip), Sampler(options, 0).probabilities
        texts = torch.tensor(list(product(range(VOCABULARY), repeat=2)))
        heads = torch.randint(VOCABULARY, (2, 1, 5), generator=torch.Generator().manual_seed(0))
        one, other = (
            pruned(torch.cat([torch.cat([head, torch.tensor([TAIL])], 1).expand(36, -1), texts], 1)).logits
            for head in heads
        )
        torch.testing.assert_close(one[:, 9:], other[:, 9:])
        after = {}
        for (a, b), logits in zip(texts.tolist(), one, strict=True):
            after[()], after[a,], after[a, b] = (warp(row) for row in logits[9:])
        return {
            (a, b, c): float(after[()][a] * after[a,][b] * after[a, b][c])
            for a, b, c in product(range(VOCABULARY), repeat=3)
        }

    return probabilities


OPTIONS = [DecodeOptions(4, temperature=1.0), DecodeOptions(4, temperature=0.7, top_p=0.9)]
SMALL = {
    "clasp": {"skip_layers": 1},
    "early_exit": {"exits": "2,3", "threshold": 0.0},
    "layerskip": {"exit_layer": 4},
    "self_skip": {"skip": "4", "confidence": 0.0},
    "swift": {"window": 1, "confidence": 0.0},
}
"""Parameters with which drafts differ from the target, and are accepted now and then, within four tokens."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "options"), [(name, OPTIONS[place % 2]) for place, name in enumerate(sorted(DRAWING - LOSSY))]
)
def test_drawing_drafts_leave_the_distribution_as_it_is(
    name, options, small_model, copy_model, exact, make_rule, p_value
):
    target, rule = TargetModel(copy_model(small_model)), make_rule(4)
    prompts = [[*head, *TAIL] for head in list(product(range(VOCABULARY), repeat=5))[::8]]
    draft = ready_draft(name, target, SMALL.get(name))
    found = decode(target, SKIPS, prompts, draft, rule, options)
    for skip, row in zip(SKIPS, found, strict=True):
        assert p_value((answer.token_ids[:3] for answer in row), exact(skip, options)) > 1e-3
    drafted = [(sum(a.counts.accepted), sum(a.counts.emitted)) for row in found for a in row]
    assert 0 < sum(accepted for accepted, _ in drafted) < sum(emitted for _, emitted in drafted)


@pytest.mark.thorough
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "cut"])
def test_drawn_trees_leave_the_distribution_as_it_is(
    options, small_model, copy_model, exact, make_rule, p_value
):
    target, rule = TargetModel(copy_model(small_model)), make_rule(4)
    # Prompts that the model cannot tell apart, so that every row is a request of its own with the same distribution.
    heads = list(product(range(VOCABULARY), repeat=5))[::8]
    prompts = [[*head, *TAIL] for head in heads]
    found = decode(target, SKIPS, prompts, Drawing(), rule, options)
    wrong = decode(target, SKIPS, prompts, Drawing(claimed=0.0), rule, options)
    for skip, row, lied in zip(SKIPS, found, wrong, strict=True):
        expected = exact(skip, options)
        assert p_value((answer.token_ids[:3] for answer in row), expected) > 1e-3
        assert p_value((answer.token_ids[:3] for answer in lied), expected) < 1e-9
        accepted = [answer.counts.accepted[0] for answer in row]
        assert set(accepted) == {0, 1, 2}
