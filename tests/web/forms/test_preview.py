from __future__ import annotations

import json

import pytest

from api.app import NAME
from skipmap.calibration.shots import CHOICE_INSTRUCTION
from web.forms.job import defaults
from web.forms.preview import preview
from web.views import set_files


@pytest.fixture
def look(app):
    """Preview a form; what is not given is as in an untouched one."""

    def act(**typed: str):
        return preview(
            app.extensions[NAME], {**defaults(), **{k.replace("__", "."): v for k, v in typed.items()}}
        )

    return act


@pytest.fixture
def upload(make_caller):
    """Upload records, or a text, and choose the set in a form."""
    caller = make_caller("jobs:write")

    def act(content, **more):
        if not isinstance(content, str):
            content = "".join(json.dumps(record) + "\n" for record in content)
        set_id = caller.upload(content, **more).get_json()["id"]
        return {"calibration__kind": "set", "calibration__set": set_id}

    return act


SAMPLE = {"calibration__kind": "sample", "calibration__sample": "qa", "domain__choice": "qa"}


def test_a_sample_as_the_target_sees_it(look):
    found = look(**SAMPLE)
    assert (found.problems, found.note) == ((), "")
    assert (found.calibration, found.held_out, found.shots) == (10, 38, 0)
    assert (found.template, found.metric) == ("chat", "f1")
    assert found.is_chat
    (only,) = found.prompts[0].passages
    assert only.role == "user"
    assert len(found.prompts) == 3
    assert all(prompt.references for prompt in found.prompts)


def test_text_templates_are_shown_whole(look):
    found = look(**SAMPLE, domain__template="vicuna")
    assert not found.is_chat
    (only,) = found.prompts[0].passages
    assert only.text.startswith("A chat between a curious user")
    assert only.text.endswith("ASSISTANT:")


def test_examples_stand_before_the_question(look):
    found = look(**SAMPLE, domain__template="few_shot", domain__shots="2")
    assert found.shots == 2
    assert found.calibration + found.held_out == 46
    assert found.prompts[0].passages[0].text.count("Question:") == 3
    chat = look(**SAMPLE, domain__shots="1")
    assert [part.role for part in chat.prompts[0].passages] == ["user", "assistant", "user"]


def test_later_turns_follow_answers_that_nobody_knows_yet(look, upload):
    records = [{"id": n, "turns": ["One?", "Two?"], "reference": [None, "b"]} for n in range(5)]
    found = look(**upload(records), domain__choice="qa")
    texts = [(part.role, part.text) for part in found.prompts[0].passages]
    assert texts == [
        ("user", "One?"),
        ("assistant", "(the model's own answer to the turn before)"),
        ("user", "Two?"),
    ]
    assert [part.text for part in found.prompts[0].references] == ["b"]


def test_multiple_choice(look, upload):
    chosen = upload(
        "".join(f"Q{n}?,a,b,c,d,B\n" for n in range(12)), name="astronomy_test", content_type="text/csv"
    )
    found = look(**chosen, domain__choice="mmlu")
    assert found.prompts[0].passages[0].text.endswith(f"D. d\n{CHOICE_INSTRUCTION}")
    assert [part.text for part in found.prompts[0].references] == ["B"]


def test_what_is_left_out_is_counted(look, upload):
    records = [{"id": n, "prompt": "Hm.", **({"reference": "a"} if n else {})} for n in range(9)]
    found = look(**upload(records), domain__choice="qa", calibration__limit="6")
    assert sum(number for _, number in found.left_out) == 3
    assert found.calibration + found.held_out == 6


def test_very_long_prompts_are_cut(look, upload):
    records = [{"id": n, "prompt": "x" * 50_000, "reference": "a"} for n in range(4)]
    found = look(**upload(records), domain__choice="qa")
    (only,) = found.prompts[0].passages
    assert (len(only.text), only.more) == (6000, 44_000)


def test_a_data_set_of_the_hub_is_for_the_workers(look):
    found = look(calibration__kind="hub", calibration__hub="owner/name", domain__choice="qa")
    assert "workers fetch" in found.note
    assert found.prompts == ()


def test_what_is_wrong_is_said(look, upload):
    assert [line.partition(":")[0] for line in look().problems] == ["Domain", "Prompts from"]
    assert look(**SAMPLE, calibration__limit="x").problems == (
        "Use at most: Must be a whole number (given: 'x')",
    )
    missing = look(calibration__kind="set", calibration__set="gone", domain__choice="qa")
    assert "no calibration set" in missing.problems[0]
    assert "no sample" in look(**{**SAMPLE, "calibration__sample": "gone"}).problems[0]
    assert "metric" in look(**{**SAMPLE, "domain__choice": "-other"}, domain__name="new").problems[0]
    records = [{"id": n, "prompt": "Hm."} for n in range(9)]
    unscored = look(**upload(records), domain__choice="qa").problems[0]
    assert "can score none of the 9 items of the set" in unscored
    assert "/tmp" not in unscored
    several = [
        {"question_id": n, "category": "ab"[n % 2], "turns": ["Q"], "reference": ["R"]} for n in range(9)
    ]
    assert look(**upload(several), domain__choice="qa").problems[0].startswith("Category: ")


def test_a_set_is_read_once_and_looked_at_again_for_another_form(look, upload, monkeypatch):
    chosen = upload([{"id": n, "prompt": f"Say {n}.", "reference": "a"} for n in range(8)])
    first = look(**chosen, domain__choice="qa")
    monkeypatch.setattr(set_files, "set_file", lambda *_: pytest.fail("the set is read again"))
    assert look(**chosen, domain__choice="qa") is first
    assert look(**chosen, domain__choice="qa", domain__shots="1").shots == 1
