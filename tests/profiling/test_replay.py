from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import generate
from skipmap.drafts.base import DraftContext, Needs
from skipmap.drafts.prompt_lookup import PromptLookup, PromptLookupParams
from skipmap.errors import ModelFailure
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.replay import Record, replay, replayable
from skipmap.skipset import SkipSet
from skipmap.tree import TokenTree

DRAFTS = [
    ("prompt_lookup", {}),
    ("prompt_lookup", {"num_tokens": 3, "max_ngram": 2}),
    ("sam", {}),
    ("sam", {"max_positions": 6, "growth": 1.5}),
]


def random_skips(rng, layers, count):
    sizes = [rng.randint(1, layers - 1) for _ in range(count)]
    return sorted({SkipSet(), *(SkipSet.of(rng.sample(range(layers), size)) for size in sizes)})


def counts_of(record):
    return (record.id, record.text, record.steps, record.emitted, record.accepted, record.new_tokens)


@pytest.mark.parametrize("kind", ["llama", "gemma"])
@pytest.mark.parametrize(("draft", "params"), DRAFTS)
def test_replay_counts_what_the_live_runtime_does(make_subject, make_items, kind, draft, params):
    rng = random.Random(f"{kind}{draft}{params}")
    subject = make_subject(
        kind,
        draft,
        params,
        end=frozenset({2, rng.randrange(3, 48)}),
        model={"seed": 1},
        max_new_tokens=rng.randint(12, 24),
        stop=(f"w{rng.randrange(45)} w", f"w{rng.randrange(45)}"),
    )
    skips = random_skips(rng, subject.target.num_layers, 3)
    talks = make_items(2, seed=rng.randrange(1000), turns=3)
    items = [*make_items(3, seed=rng.randrange(1000)), *(replace(i, id=f"talk-{i.id}") for i in talks)]
    replayed = evaluate(subject, skips, items, 4096, "replay")
    live = evaluate(subject, skips, items, 4096, "live")
    for one, other in zip(replayed, live, strict=True):
        assert list(map(counts_of, one.prompts)) == list(map(counts_of, other.prompts))
        assert (one.skip, one.metric, one.accept_length) == (other.skip, other.metric, other.accept_length)
    assert {e.evaluator for e in replayed} == {"replay"}
    assert {e.evaluator for e in live} == {"live"}


@pytest.mark.parametrize(("kind", "seed"), [("llama", 1), ("gemma", 2)])
def test_every_step_agrees_whatever_ends_the_answer(make_subject, make_items, kind, seed):
    finishes, accepted = Counter(), 0
    for draft, params in DRAFTS:
        subject = make_subject(
            kind, draft, params, end=frozenset({2, 12}), model={"seed": seed}, stop=("w9 ", "w31")
        )
        for item in make_items(5, seed=5):
            prompt = subject.prompt(item)
            for skip in (SkipSet(), SkipSet((0,)), SkipSet((1, 3))):
                live = generate(
                    subject.target, prompt, skip, subject.draft, subject.stop_rule, subject.options
                )
                again = replay(subject.draft, prompt, live.token_ids, subject.options)
                assert again == live.counts
                finishes[live.finish] += 1
                accepted += sum(live.counts.accepted)
    # The comparison is worth something only when all of this came up.
    assert set(finishes) == {"eos", "stop", "length"}
    assert accepted > 50


class Scripted:
    """Proposes a fixed continuation, as far as the test lets it."""

    needs = Needs()
    replayable = True

    def __init__(self, *drafts):
        self._drafts = drafts
        self.seen = []

    name = "scripted"

    def fresh(self, previous=None):
        self.seen = []
        return iter(self._drafts)

    def propose(self, state, context: DraftContext):
        self.seen.append((list(context.tokens), context.remaining))
        return TokenTree.chain(next(state))

    def observe(self, state, outcome):
        self.seen.append((len(outcome.tree), outcome.emitted))


def test_counts_by_hand():
    draft = Scripted([11, 12, 99], [], [15, 16, 17])
    counts = replay(draft, [1, 2], [10, 11, 12, 13, 14, 15, 16], DecodeOptions(7))
    # 11 12 accepted and 13 as bonus; 14 alone; 15 16 accepted up to the end of the text, with no bonus left.
    assert counts.emitted == [3, 1, 2]
    assert counts.accepted == [2, 0, 2]
    assert draft.seen == [
        (0, (10,)),
        ([1, 2, 10], 6),
        (3, (11, 12, 13)),
        ([1, 2, 10, 11, 12, 13], 3),
        (0, (14,)),
        ([1, 2, 10, 11, 12, 13, 14], 2),
        # Cut to what may still be emitted.
        (2, (15, 16)),
    ]


def test_text_of_one_token_takes_no_step():
    assert replay(Scripted(), [1], [2], DecodeOptions(9)).steps == 0


def test_only_drafts_that_look_at_accepted_tokens_alone_are_replayable():
    class Ranking(PromptLookup):
        needs = Needs(top_k=8, prompt=True)

    class Listening(PromptLookup):
        needs = Needs(final_hidden=True)

    class Deep(PromptLookup):
        needs = Needs(block_inputs=(2,))

    class Learning(PromptLookup):
        replayable = False

    params = PromptLookupParams()
    assert all(replayable(method(params)) for method in (PromptLookup, Ranking))
    assert not any(replayable(method(params)) for method in (Listening, Deep, Learning))


def test_drawn_proposals_cannot_be_counted_over_a_text():
    class Drawing(Scripted):
        def propose(self, state, context):
            return TokenTree((1,), (-1,), {-1: torch.ones(3) / 3})

    with pytest.raises(ModelFailure, match="draft scripted draws its proposals"):
        replay(Drawing(), [1], [2, 3], DecodeOptions(9))


def test_record_shows_the_rows_of_root_and_accepted_nodes():
    class Ranking(Scripted):
        needs = Needs(top_k=2, prompt=True)
        rows = ()

        def propose(self, state, context):
            # Root -> 50, 11 -> 12, 60
            return TokenTree((50, 11, 12, 60), (-1, -1, 1, 1)) if context.tokens[-1] == 10 else TokenTree()

        def observe(self, state, outcome):
            self.rows = (*self.rows, None if outcome.top_tokens is None else outcome.top_tokens.tolist())

    draft = Ranking()
    # More is on record than this draft asks for.
    record = Record(torch.tensor([[1, 2, 3]]), [torch.tensor([i, i + 1, i + 2]) for i in (10, 20, 30, 40)])
    counts = replay(draft, [9], [10, 11, 12, 13, 14], DecodeOptions(9), record=record)
    assert (counts.emitted, counts.accepted, counts.scored) == ([3, 1], [2, 0], [5, 1])
    unknown = [-1, -1]
    assert draft.rows == ([[1, 2]], [[10, 11], unknown, [20, 21], [30, 31], unknown], [[40, 41]])
