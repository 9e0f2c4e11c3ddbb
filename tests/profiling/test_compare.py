from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from skipmap.drafts.registry import draft_names
from skipmap.profiling.compare import compare
from skipmap.profiling.evaluate import evaluate, evaluator_for
from skipmap.profiling.intervals import interval, resample
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from tests.ready_drafts import DRAWING, LOSSY, ready_draft

SKIP = SkipSet((1, 3))
VARIANTS = {
    "sam:max_positions=6": ("sam", {"max_positions": 6}),
    "samd:update=accepted": ("samd", {"update": "accepted"}),
    "token_recycling:width=3:from_prompt=true:update=accepted": (
        "token_recycling",
        {"width": 3, "from_prompt": True, "update": "accepted"},
    ),
}


def drafts_of(subject, names):
    """Drafts by name for the subject's target; the ones of ``VARIANTS`` with their parameters."""
    variants = {name: VARIANTS.get(name, (name, {})) for name in names}
    return {name: ready_draft(method, subject.target, params) for name, (method, params) in variants.items()}


def items_of(make_items, turns=True):
    """Items of one turn, and of two."""
    talks = make_items(2, seed=1, turns=2) if turns else []
    return [*make_items(3), *(replace(item, id=f"two-{item.id}") for item in talks)]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "temperature"), [("llama", 0.0), ("gemma", 1.0)])
def test_every_row_is_what_the_draft_gets_alone(make_subject, make_items, kind, temperature):
    subject = make_subject(kind, stop=("w31",), temperature=temperature, top_p=0.9)
    items = items_of(make_items)
    drafts = drafts_of(subject, [*draft_names(), *VARIANTS])
    rows = compare(subject, drafts, SKIP, items, 900)
    assert [row.name for row in rows] == list(drafts)
    for row in rows:
        alone = replace(subject, draft=drafts[row.name])
        assert row.evaluation == evaluate(alone, [SKIP], items, 900)[0]
        assert row.evaluation.evaluator == evaluator_for(alone)
    assert {row.evaluation.evaluator for row in rows} == {"replay", "live"}
    # Each text is its own draft's no less than everyone's, unless drafted tokens are drawn.
    apart = (DRAWING | LOSSY) if temperature else LOSSY
    alike = [row for row in rows if row.name not in apart]
    assert len({tuple(p.text for p in row.evaluation.prompts) for row in alike}) == 1
    assert len({row.evaluation.accept_length for row in rows}) > 3


def test_texts_are_decoded_once_for_all_drafts_that_can_be_replayed(make_subject, make_items):
    subject, items = make_subject(), items_of(make_items)
    forwards = []
    subject.target.hook = forwards.append

    def count(*names):
        forwards.clear()
        passes = []
        compare(
            subject,
            drafts_of(subject, names),
            SkipSet(),
            items,
            4096,
            lambda done, total: passes.append((done, total)),
        )
        return len(forwards), passes

    replayed = ("sam", "prompt_lookup", *VARIANTS)
    plain, passes = count("sam")
    assert passes == [(0, 1), (1, 1)]
    assert plain > 10
    assert count(*replayed) == (plain, passes)
    live, _ = count("token_recycling")
    assert count("token_recycling", *replayed, "samd")[1] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert count("token_recycling", *replayed)[0] == plain + live


def test_interval_is_that_of_the_accept_length_over_prompts(make_subject, make_items):
    subject, items = make_subject(), make_items(6)
    (row,) = compare(subject, drafts_of(subject, ["sam"]), SkipSet(), items, 4096)
    prompts = row.evaluation.prompts
    assert all(prompt.steps for prompt in prompts)
    assert row.interval == pytest.approx(interval(resample(prompts, subject.metric).accept_length))
    low, high = row.interval
    assert low < row.evaluation.accept_length < high


def test_answers_without_a_step_have_no_interval_to_speak_of(make_subject, make_items):
    subject = make_subject(max_new_tokens=1)
    (row,) = compare(subject, drafts_of(subject, ["sam"]), SkipSet(), make_items(3), 4096)
    assert (row.evaluation.steps, row.interval) == (0, (0.0, 0.0))


def test_state_is_fresh_for_every_prompt_whatever_the_subject_says(make_subject, make_items):
    subject, items = make_subject("llama", "pia"), make_items(4)
    drafts = drafts_of(subject, ["pia", "token_recycling"])
    carrying = replace(subject, carries_state=True)
    assert compare(carrying, drafts, SKIP, items, 4096) == compare(subject, drafts, SKIP, items, 4096)


def test_out_of_memory_halves_the_prompts_of_all_drafts(make_subject, make_items, monkeypatch):
    subject, items = make_subject(), items_of(make_items)
    drafts = drafts_of(subject, ["sam", "prompt_lookup", "token_recycling"])
    whole = compare(subject, drafts, SKIP, items, 65536)
    real = TargetModel.prefill

    def prefill(self, skips, prompts, **options):
        if len(prompts) > 1:
            raise torch.OutOfMemoryError("no room")
        return real(self, skips, prompts, **options)

    monkeypatch.setattr(TargetModel, "prefill", prefill)
    halved = compare(subject, drafts, SKIP, items, 65536)
    assert all(row.evaluation.batch_split for row in halved)
    assert [replace(row, evaluation=replace(row.evaluation, batch_split=False)) for row in halved] == whole
