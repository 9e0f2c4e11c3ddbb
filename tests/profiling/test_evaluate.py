from __future__ import annotations

import random
import weakref
from dataclasses import replace

import pytest
import torch

from skipmap.calibration.items import Item
from skipmap.drafts.base import Needs
from skipmap.drafts.prompt_lookup import PromptLookup
from skipmap.drafts.registry import draft_names
from skipmap.errors import InvalidInput, ModelFailure
from skipmap.profiling.evaluate import answer, evaluate, evaluator_for
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from tests.spread import spread

SKIPS = [SkipSet(), SkipSet((0, 2)), SkipSet((1,)), SkipSet((1, 3)), SkipSet((3,))]


def by_id(evaluations):
    return [(e.skip, sorted(e.prompts, key=lambda p: p.id)) for e in evaluations]


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_neither_order_nor_batches_matter(make_subject, make_items, kind):
    subject = make_subject(kind, "sam", stop=("w31",))
    items = [*make_items(4), *(replace(i, id=f"two-{i.id}") for i in make_items(2, seed=1, turns=2))]
    expected = evaluate(subject, SKIPS, items, 65536)
    assert [record.id for record in expected[0].prompts] == [item.id for item in items]
    for batch_tokens in (256, 700):
        assert evaluate(subject, SKIPS, items, batch_tokens) == expected
    shuffled = evaluate(subject, SKIPS, random.Random(0).sample(items, len(items)), 700)
    assert by_id(shuffled) == by_id(expected)
    assert [e.metric for e in shuffled] == pytest.approx([e.metric for e in expected])
    alone = [evaluate(subject, [skip], items, 65536)[0] for skip in SKIPS]
    assert alone == expected


def test_figures_come_from_the_whole_part(make_subject, make_items):
    subject = make_subject()
    items = make_items(4)
    found = evaluate(subject, [SkipSet()], items, 4096)[0]
    assert found.metric == pytest.approx(sum(p.stats[0] for p in found.prompts) / 4)
    assert found.accept_length == sum(p.emitted for p in found.prompts) / sum(p.steps for p in found.prompts)
    assert found.accept_length == pytest.approx(1 + found.accepted_drafts, abs=4 / found.steps)
    for record in found.prompts:
        # All tokens but the one that prefill yields come from steps.
        assert record.new_tokens == 1 + record.emitted
        assert record.seconds is None


def test_one_token_answers_are_idle(make_subject, make_items):
    found = evaluate(make_subject(max_new_tokens=1), [SkipSet()], make_items(3), 4096)[0]
    assert (found.steps, found.idle_prompts, found.accept_length, found.accepted_drafts) == (0, 3, 0.0, 0.0)


def test_metric_looks_at_the_last_turn_with_a_reference(make_subject):
    subject = make_subject("gemma")
    item = Item("a", ("w1 w2 w3", "w4 w5", "w6"), ((), ("w1",), ()))
    middle = evaluate(subject, [SkipSet()], [item], 4096)[0].prompts[0].text
    right = replace(item, references=((), (middle,), ()))
    found = evaluate(subject, [SkipSet()], [right], 4096)[0]
    assert found.metric == 1.0
    assert found.prompts[0].text == middle
    assert answer(subject, SkipSet(), right).text == middle


def test_each_turn_sees_the_models_own_answers(make_subject):
    subject = make_subject()
    turns = ("w1 w2 w3", "w4 w5 w6")
    first = answer(subject, SkipSet((1,)), Item("a", turns[:1], (("w1",),)))
    prompt = subject.prompt(Item("a", turns, ((), ("w1",))), [first.text])
    expected = subject.tokenizer(f"<s> {turns[0]} w0 {first.text} w0 {turns[1]} w0")["input_ids"]
    assert prompt == expected


def test_answers_given_alone_carry_seconds(make_subject, make_items):
    record = answer(make_subject(), SkipSet(), make_items(1)[0])
    assert 0 < record.draft_seconds + record.verify_seconds < record.seconds


class Learning(PromptLookup):
    """As prompt lookup, but it claims to learn from rejected nodes."""

    replayable = False


class Listening(PromptLookup):
    needs = Needs(final_hidden=True)


@pytest.mark.parametrize("method", [Learning, Listening])
def test_drafts_that_cannot_be_replayed_run_live(make_subject, make_items, method):
    subject = make_subject()
    live = replace(subject, draft=method(subject.draft.params))
    assert (evaluator_for(subject), evaluator_for(live)) == ("replay", "live")
    one, other = (evaluate(s, SKIPS, make_items(3), 4096) for s in (subject, live))
    assert {e.evaluator for e in other} == {"live"}
    assert [e.prompts for e in one] == [e.prompts for e in other]


@pytest.mark.thorough
@pytest.mark.parametrize(("draft", "temperature"), spread(draft_names(), [0.0, 1.0]))
def test_batched_live_evaluation_equals_one_prompt_at_a_time(make_subject, make_items, draft, temperature):
    subject = make_subject("gemma", draft, stop=("w31",), temperature=temperature, top_p=0.9)
    items = [*make_items(3), *(replace(i, id=f"two-{i.id}") for i in make_items(2, seed=1, turns=2))]
    together = evaluate(subject, SKIPS, items, 65536, "live")
    assert [e.prompts for e in together] == [
        tuple(timeless(answer(subject, skip, item)) for item in items) for skip in SKIPS
    ]
    assert evaluate(subject, SKIPS, items, 700, "live") == together
    if evaluator_for(subject) == "replay":
        assert [e.prompts for e in evaluate(subject, SKIPS, items, 65536)] == [e.prompts for e in together]
    assert sum(p.accepted for e in together for p in e.prompts) > 0 or draft == "lookahead"


def timeless(record):
    return replace(record, seconds=None, draft_seconds=None, verify_seconds=None)


@pytest.mark.parametrize("draft", ["token_recycling", "samd"])
def test_accepted_updates_replay_exactly(make_subject, make_items, draft):
    for more in ({}, {"from_prompt": True}, {"from_prompt": False, "width": 3}):
        subject = make_subject("llama", draft, {"update": "accepted", **more})
        assert evaluator_for(subject) == "replay"
        replayed, live = (evaluate(subject, SKIPS, make_items(4), 65536, e) for e in ("replay", "live"))
        assert [e.prompts for e in replayed] == [e.prompts for e in live]
        assert sum(e.accept_length for e in live) > len(SKIPS)
    assert evaluator_for(make_subject("llama", draft)) == "live"


@pytest.mark.parametrize("draft", ["token_recycling", "samd", "pia"])
def test_carried_state_goes_from_prompt_to_prompt(make_subject, make_items, draft):
    fresh = make_subject("llama", draft)
    carrying = replace(fresh, carries_state=True)
    assert evaluator_for(carrying) == "live"
    items = make_items(6)
    found = evaluate(carrying, SKIPS, items, 65536)
    memory = {}
    alone = [[timeless(answer(carrying, skip, item, memory)) for item in items] for skip in SKIPS]
    assert [list(e.prompts) for e in found] == alone
    # The texts stay, the first prompt's counts as well; later ones profit from what was learnt.
    without = evaluate(fresh, SKIPS, items, 65536)
    assert [[p.text for p in e.prompts] for e in found] == [[p.text for p in e.prompts] for e in without]
    assert [e.prompts[0] for e in found] == [e.prompts[0] for e in without]
    assert sum(e.steps for e in found) < sum(e.steps for e in without)


@pytest.fixture
def short_of_memory(monkeypatch):
    """Let prefill fail as a full device does for more than ``k`` configurations; collects the sizes tried."""
    real = TargetModel.prefill

    def apply(k):
        tried, held = [], []

        class Tensors:
            pass

        def prefill(self, skips, *args, **kwargs):
            assert not any(ref() for ref in held), "the failed batch is still held"
            tried.append(len(skips))
            if len(skips) > k:
                tensors = Tensors()
                held.append(weakref.ref(tensors))
                raise torch.OutOfMemoryError("no room")
            return real(self, skips, *args, **kwargs)

        monkeypatch.setattr(TargetModel, "prefill", prefill)
        return tried

    return apply


@pytest.mark.parametrize(
    ("k", "tried"), [(3, [5, 2, 3]), (2, [5, 2, 3, 1, 2]), (1, [5, 2, 1, 1, 3, 1, 2, 1, 1])]
)
def test_out_of_memory_halves_the_configurations(make_subject, make_items, short_of_memory, k, tried):
    subject, items = make_subject(), make_items(3)
    whole = evaluate(subject, SKIPS, items, 65536)
    sizes = short_of_memory(k)
    halved = evaluate(subject, SKIPS, items, 65536)
    assert sizes == tried
    assert all(e.batch_split for e in halved)
    assert not any(e.batch_split for e in whole)
    assert [replace(e, batch_split=False) for e in halved] == whole


def test_one_configuration_too_big_is_an_error(make_subject, make_items, short_of_memory):
    subject, items = make_subject(), make_items(2)
    short_of_memory(0)
    with pytest.raises(
        ModelFailure, match=r"cpu has too little memory for a single prompt; shorten prompts or"
    ):
        evaluate(subject, SKIPS[:2], items, 65536)


def test_prompts_are_halved_when_one_configuration_is_too_big(make_subject, make_items, monkeypatch):
    subject, items = make_subject(), make_items(3)
    whole = evaluate(subject, SKIPS[:1], items, 65536)
    real = TargetModel.prefill

    def prefill(self, skips, prompts, **options):
        if len(prompts) > 1:
            # How torch says it on the CPU.
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return real(self, skips, prompts, **options)

    monkeypatch.setattr(TargetModel, "prefill", prefill)
    found = evaluate(subject, SKIPS[:1], items, 65536)
    assert found == [replace(e, batch_split=True) for e in whole]


def test_answers_that_outgrow_the_context_name_the_item(make_subject):
    long = Item("long-talk", (" ".join(["w1"] * 115), " ".join(["w2"] * 115)), ((), ("w1",)))
    with pytest.raises(InvalidInput, match=r"calibration item 'long-talk'.*context of 256.*max_new_tokens"):
        evaluate(make_subject(), [SkipSet()], [long], 4096)
