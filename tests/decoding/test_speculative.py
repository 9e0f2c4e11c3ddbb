from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch

from skipmap.decoding.options import DecodeOptions, Generation
from skipmap.decoding.sampling import request_seed
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.drafts.registry import draft_names, make_draft
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from skipmap.tree import ROOT, TokenTree

FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
DRAFTS = draft_names()


@dataclass
class Scripted:
    """Draft that proposes given trees in turn, then nothing, and keeps what it was shown."""

    trees: Sequence[TokenTree]
    needs: Needs = field(default_factory=Needs)
    tree_size: int = 32
    replayable: bool = False
    contexts: list[DraftContext] = field(default_factory=list)
    outcomes: list[StepOutcome] = field(default_factory=list)

    def fresh(self, previous: object = None) -> list[TokenTree]:
        return list(self.trees)

    def propose(self, state: list[TokenTree], context: DraftContext) -> TokenTree:
        self.contexts.append(replace(context, tokens=list(context.tokens)))
        return state.pop(0) if state else TokenTree()

    def observe(self, state: list[TokenTree], outcome: StepOutcome) -> None:
        self.outcomes.append(outcome)


def random_skips(seed: int, count: int) -> list[SkipSet]:
    rng = random.Random(seed)
    drawn = {SkipSet.of(rng.sample(range(6), rng.randrange(6))) for _ in range(count)}
    return sorted(drawn | {SkipSet.of([0]), SkipSet.of([0, 2])})


def random_trees(rng: random.Random, text: Sequence[int]) -> list[TokenTree]:
    """Trees that hide the right continuation of some length among wrong branches, for steps through ``text``."""
    trees, at = [], 0
    while at < len(text) - 1:
        parents, tokens, tip = [], [], ROOT
        right = text[at + 1 : at + 1 + rng.randrange(5)]
        for token in right:
            for _ in range(rng.randrange(3)):
                parents.append(rng.randrange(ROOT, len(tokens)))
                tokens.append(rng.randrange(97, 200) % 97)
            parents.append(tip)
            tokens.append(token)
            tip = len(tokens) - 1
        trees.append(TokenTree(tuple(tokens), tuple(parents)))
        at += len(right) + 1
    return trees


@pytest.mark.parametrize("family", FAMILIES)
def test_drafts_do_not_change_the_text(
    family, tiny_model, tiny_target, without_blocks, hugging_face_greedy, make_rule, repeating_prompts
):
    target, rule, options = tiny_target(family), make_rule(24), DecodeOptions(max_new_tokens=24)
    skips = random_skips(FAMILIES.index(family), 3)
    plain = decode(target, skips, repeating_prompts, None, rule, DecodeOptions(24))
    accepted = dict.fromkeys(DRAFTS, 0)
    for skip, row in zip(skips, plain, strict=True):
        pruned = without_blocks(tiny_model(family), skip)
        for prompt, answer in zip(repeating_prompts, row, strict=True):
            assert list(answer.token_ids) == hugging_face_greedy(pruned, prompt, 24)
            for name in DRAFTS:
                found = generate(target, prompt, skip, make_draft(name), rule, options)
                assert found.token_ids == answer.token_ids
                assert found.finish == answer.finish
                assert sum(found.counts.emitted) == len(answer.token_ids) - 1
                assert set(found.blocks_run) == {6 - len(skip)}
                accepted[name] += sum(found.counts.accepted)
    assert min(accepted.values()) > 5


@pytest.mark.parametrize("policy", ["sparse", "dense"])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_text_ends_where_plain_decoding_ends(family, policy, tiny_target, make_rule, repeating_prompts):
    target = tiny_target(family)
    skips = random_skips(9, 3)
    free = decode(target, skips, repeating_prompts, None, make_rule(24), DecodeOptions(24, prefill=policy))
    stop = " ".join(map(str, free[0][1].token_ids[4:7]))
    rule = make_rule(24, end=[free[1][2].token_ids[9]], stop=[stop])
    options = DecodeOptions(max_new_tokens=24, prefill=policy)
    plain = decode(target, skips, repeating_prompts, None, rule, DecodeOptions(24, prefill=policy))
    assert {answer.finish for row in plain for answer in row} >= {"eos", "stop"}
    for skip, row in zip(skips, plain, strict=True):
        for prompt, answer in zip(repeating_prompts, row, strict=True):
            for draft in (None, *map(make_draft, DRAFTS)):
                found = generate(target, prompt, skip, draft, rule, options)
                assert (found.token_ids, found.finish) == (answer.token_ids, answer.finish)


def test_prefill_policies_differ(tiny_target, make_rule, repeating_prompts):
    target, skip = tiny_target("llama"), SkipSet.of([0, 2])
    texts = {
        generate(
            target, repeating_prompts[1], skip, None, make_rule(24), DecodeOptions(24, prefill=policy)
        ).token_ids
        for policy in ("sparse", "dense")
    }
    assert len(texts) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_trees_do_not_change_the_text(family, tiny_target, make_rule, repeating_prompts):
    rng = random.Random(1)
    target, rule, options = tiny_target(family), make_rule(24), DecodeOptions(max_new_tokens=24)
    for skip in random_skips(2, 2):
        answer = decode(target, [skip], repeating_prompts[1:2], None, rule, DecodeOptions(24))[0][0]
        draft = Scripted(random_trees(rng, answer.token_ids))
        found = generate(target, repeating_prompts[1], skip, draft, rule, options)
        assert found.token_ids == answer.token_ids
        assert sum(found.counts.accepted) > 0
        assert any(not outcome.tree.is_chain for outcome in draft.outcomes)


@pytest.fixture(scope="module")
def story(tiny_target, make_rule) -> tuple[TargetModel, list[int], list[int]]:
    """A target, a prompt, and the first tokens of its answer, none of which repeats."""
    target = tiny_target("llama")
    prompts = [[a, a + 1, a + 2, a + 3] for a in range(60)]
    for prompt, answer in zip(
        prompts,
        decode(target, [SkipSet.of([1])], prompts, None, make_rule(12), DecodeOptions(12))[0],
        strict=True,
    ):
        if len(set(answer.token_ids)) == 12:
            return target, prompt, list(answer.token_ids)
    raise AssertionError("every answer repeats itself")


@pytest.fixture
def tell(story, make_rule) -> Callable[..., tuple[Generation, Scripted]]:
    """Generate with scripted trees."""
    target, prompt, _ = story

    def run(
        *trees: TokenTree, limit: int = 12, end: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> tuple[Generation, Scripted]:
        draft = Scripted(trees)
        rule, options = make_rule(limit, end, stop), DecodeOptions(max_new_tokens=limit)
        return generate(target, prompt, SkipSet.of([1]), draft, rule, options), draft

    return run


def counted(found: Generation) -> list[tuple[int, int]]:
    """(emitted, accepted) of each step."""
    return list(zip(found.counts.emitted, found.counts.accepted, strict=True))


def wrong(token: int) -> int:
    return (token + 1) % 97


class TestCounts:
    """One token from the prefill, which is no step; then accepted drafts and one more token a step."""

    def test_full_acceptance_and_empty_proposals(self, story, tell):
        t = story[2]
        found, _ = tell(TokenTree.chain(t[1:4]), TokenTree(), TokenTree.chain(t[6:9]), limit=10)
        assert found.token_ids == tuple(t[:10])
        assert counted(found) == [(4, 3), (1, 0), (4, 3)]
        assert found.finish == "length"
        assert found.counts.steps == len(found.blocks_run) == 3

    def test_rejection_in_the_middle(self, story, tell):
        t = story[2]
        found, _ = tell(TokenTree.chain([t[1], t[2], wrong(t[3]), t[4]]), limit=5)
        assert counted(found) == [(3, 2), (1, 0)]
        assert found.token_ids == tuple(t[:5])

    def test_end_token_inside_the_draft(self, story, tell):
        t = story[2]
        found, _ = tell(TokenTree.chain(t[1:6]), end=[t[3]])
        assert found.token_ids == tuple(t[:4])
        assert found.finish == "eos"
        assert counted(found) == [(3, 3)]

    def test_end_token_after_the_draft(self, story, tell):
        t = story[2]
        found, _ = tell(TokenTree.chain(t[1:3]), end=[t[3]])
        assert counted(found) == [(3, 2)]
        assert found.finish == "eos"

    def test_stop_string_across_prefill_and_steps(self, story, tell):
        t = story[2]
        found, _ = tell(TokenTree.chain(t[1:6]), stop=[f"{t[0]} {t[1]} {t[2]}"])
        assert found.token_ids == tuple(t[:3])
        assert found.text == ""
        assert counted(found) == [(2, 2)]
        found, _ = tell(TokenTree.chain(t[1:3]), TokenTree.chain(t[4:8]), stop=[f" {t[3]} {t[4]}"])
        assert found.token_ids == tuple(t[:5])
        assert found.text == f"{t[0]} {t[1]} {t[2]}"
        assert (found.finish, counted(found)) == ("stop", [(3, 2), (1, 1)])

    def test_limit_inside_the_draft(self, story, tell):
        t = story[2]
        found, draft = tell(TokenTree.chain(t[1:9]), limit=4)
        assert found.token_ids == tuple(t[:4])
        assert found.finish == "length"
        assert counted(found) == [(3, 3)]
        assert len(draft.outcomes[1].tree) == 3

    def test_answer_that_ends_in_the_prefill_has_no_step(self, story, tell):
        t = story[2]
        for bound in ({"limit": 1}, {"end": [t[0]]}, {"stop": [str(t[0])]}):
            found, draft = tell(TokenTree.chain(t[1:4]), **bound)
            assert found.token_ids == (t[0],)
            assert counted(found) == []
            assert found.blocks_run == ()
            assert draft.contexts == []

    def test_sibling_accepted_in_a_tree(self, story, tell):
        t = story[2]
        #       root -> wrong -> t2 ; t1 -> wrong ; t1 -> t2 -> t3
        tree = TokenTree((wrong(t[1]), t[2], t[1], wrong(t[2]), t[2], t[3]), (ROOT, 0, ROOT, 2, 2, 4))
        found, draft = tell(tree, TokenTree((wrong(t[5]), t[5]), (ROOT, ROOT)), limit=9)
        assert found.token_ids == tuple(t[:9])
        assert counted(found) == [(4, 3), (2, 1), (1, 0), (1, 0)]
        assert [outcome.accepted for outcome in draft.outcomes[1:]] == [(2, 4, 5), (1,), (), ()]


def test_draft_is_told_what_happened(story, tell):
    _, prompt, t = story
    tree = TokenTree.chain([t[1], wrong(t[2])])
    _, draft = tell(tree, TokenTree.chain(t[3:9]), limit=6)
    assert [context.tokens for context in draft.contexts] == [[*prompt, t[0]], [*prompt, *t[:3]]]
    assert [context.remaining for context in draft.contexts] == [5, 3]
    assert [context.temperature for context in draft.contexts] == [0.0, 0.0]
    assert [(o.tree, o.accepted, o.emitted) for o in draft.outcomes] == [
        (TokenTree(), (), (t[0],)),
        (tree, (0,), (t[1], t[2])),
        (TokenTree.chain(t[3:6]), (0, 1, 2), (t[3], t[4], t[5])),
    ]


def test_draft_sees_what_it_needs(story, make_rule):
    target, prompt, t = story
    needs = Needs(top_k=3, block_inputs=(0, 2), final_hidden=True)
    draft = Scripted([TokenTree((wrong(t[1]), t[1]), (ROOT, ROOT))], needs)
    generate(target, prompt, SkipSet.of([1]), draft, make_rule(3), DecodeOptions(max_new_tokens=3))
    outcome = draft.outcomes[1]
    assert outcome.top_tokens.shape == (3, 3)
    assert outcome.top_tokens[0, 0] == t[1]
    assert outcome.top_tokens[2, 0] == t[2]
    assert torch.equal(target.logits(outcome.final_hidden).argmax(-1), outcome.top_tokens[:, 0])
    embeddings = target.model.get_input_embeddings()(torch.tensor([t[0], wrong(t[1]), t[1]]))
    assert torch.equal(outcome.block_inputs[0], embeddings)
    assert outcome.block_inputs[2].shape == embeddings.shape


def test_seed_is_a_function_of_seed_prompt_and_skip_set(story, make_rule):
    target, prompt, _ = story
    draft = Scripted([])
    generate(target, prompt, SkipSet.of([1]), draft, make_rule(3), DecodeOptions(max_new_tokens=3, seed=5))
    assert {context.seed for context in draft.contexts} == {request_seed(5, prompt, SkipSet.of([1]))}
    seeds = {
        request_seed(seed, tokens, SkipSet.of(skip))
        for seed in (0, 1)
        for tokens in ([1, 23], [12, 3], [1, 2, 3])
        for skip in ([], [1], [1, 2])
    }
    assert len(seeds) == 18


def test_wrong_options_are_refused(story, make_rule):
    target, prompt, _ = story
    with pytest.raises(InvalidInput, match="4 tokens and 253 new ones pass the target's context of 256"):
        generate(target, prompt, SkipSet(), None, make_rule(253), DecodeOptions(max_new_tokens=253))
    with pytest.raises(InvalidInput, match="has no tokens"):
        generate(target, [], SkipSet(), None, make_rule(), DecodeOptions())


def test_answer_may_fill_the_context(story, make_rule):
    target, prompt, _ = story
    found = generate(
        target, prompt, SkipSet(), make_draft("sam"), make_rule(252), DecodeOptions(max_new_tokens=252)
    )
    assert len(found.token_ids) == 252


def test_hook_that_raises_stops_generation(tiny_target, make_rule, repeating_prompts):
    def hook(progress):
        if progress.kind == "step":
            raise InterruptedError("cancel")

    with pytest.raises(InterruptedError, match="cancel"):
        generate(tiny_target(hook=hook), repeating_prompts[0], SkipSet(), None, make_rule(), DecodeOptions())
