from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from skipmap.calibration.items import Item
from skipmap.calibration.templates import get_template, render_prompt, template_names
from skipmap.errors import InvalidInput

MakeTokenizer = Callable[..., PreTrainedTokenizerFast]

VICUNA_ONE = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
    "detailed, and polite answers to the user's questions. USER: Q1 ASSISTANT:"
)
VICUNA_TWO = VICUNA_ONE + " A1</s>USER: Q2 ASSISTANT:"
LLAMA_2_ONE = (
    "[INST] <<SYS>>\nYou are a helpful, respectful and honest assistant. Always answer as helpfully as "
    "possible, while being safe.  Your answers should not include any harmful, unethical, racist, "
    "sexist, toxic, dangerous, or illegal content. Please ensure that your responses are socially "
    "unbiased and positive in nature.\n\nIf a question does not make any sense, or is not factually "
    "coherent, explain why instead of answering something not correct. If you don't know the answer to "
    "a question, please don't share false information.\n<</SYS>>\n\nQ1 [/INST]"
)
LLAMA_2_TWO = LLAMA_2_ONE + " A1 </s><s>[INST] Q2 [/INST]"

CHOICE = Item("c", ("Which?",), choices=("red", "blue"), answer=1)
SHOT = Item("s", ("How?",), (("so",),))


def _text(
    tokenizer: PreTrainedTokenizerFast,
    name: str,
    turns: Sequence[str],
    answers: Sequence[str] = (),
    shots: Sequence[Item] = (),
) -> str:
    ids = get_template(name).render(turns, answers, shots, tokenizer)
    assert all(type(token) is int for token in ids)
    return str(tokenizer.decode(ids))


@pytest.mark.parametrize(
    ("name", "one", "two"), [("vicuna", VICUNA_ONE, VICUNA_TWO), ("llama-2", LLAMA_2_ONE, LLAMA_2_TWO)]
)
def test_golden_dialogues(tokenizer: PreTrainedTokenizerFast, name: str, one: str, two: str) -> None:
    assert _text(tokenizer, name, ["Q1"]) == "<s>" + one
    assert _text(tokenizer, name, ["Q1", "Q2"], [" A1\n"]) == "<s>" + two
    shot = Item("s", ("Q1",), (("A1",),))
    assert _text(tokenizer, name, ["Q2"], shots=[shot]) == "<s>" + two
    ids = get_template(name).render(["Q1", "Q2"], ["A1"], [], tokenizer)
    assert (ids.count(0), ids.count(1)) == (two.count("<s>") + 1, 1)


def test_golden_dialogues_are_the_published_ones(extra_data: Path) -> None:
    published = json.loads((extra_data / "prompt_templates.json").read_text())
    for name, one, two in (("vicuna", VICUNA_ONE, VICUNA_TWO), ("llama-2-chat", LLAMA_2_ONE, LLAMA_2_TWO)):
        for turns, ours in (("one_turn", one), ("two_turn", two)):
            theirs = published[name][turns]
            for label in ("Q1", "A1", "Q2"):
                theirs = theirs.replace("{" + label + "}", label)
            assert theirs == ours


def test_chat_is_the_tokenizers_own(tokenizer: PreTrainedTokenizerFast) -> None:
    text = _text(tokenizer, "chat", ["Q1", "Q2"], ["A1"], [SHOT, CHOICE])
    assert text == (
        "<|user|>How?</s><|assistant|>so</s>"
        "<|user|>Which?\nA. red\nB. blue\nAnswer with the letter of the right option.</s><|assistant|>B</s>"
        "<|user|>Q1</s><|assistant|>A1</s><|user|>Q2</s><|assistant|>"
    )
    messages = [{"role": "user", "content": "Q1"}]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert get_template("chat").render(["Q1"], [], [], tokenizer) == expected


def test_chat_does_not_change_with_the_day(make_tokenizer: MakeTokenizer) -> None:
    dated = (
        "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
        "{{ date_string }}|{{ messages[0]['content'] }}"
    )
    assert _text(make_tokenizer(chat_template=dated), "chat", ["Q1"]) == "26 Jul 2024|Q1"


def test_chat_without_a_chat_template(make_tokenizer: MakeTokenizer) -> None:
    with pytest.raises(
        InvalidInput, match=r"domain\.template: chat needs a chat template .* use few_shot or plain"
    ):
        _text(make_tokenizer(chat_template=None), "chat", ["Q1"])


def test_few_shot(tokenizer: PreTrainedTokenizerFast) -> None:
    assert _text(tokenizer, "few_shot", ["Q1"]) == "<s>Q1\nAnswer:"
    assert _text(tokenizer, "few_shot", ["Q1\n", "Q2"], ["A1 "], [SHOT, CHOICE]) == (
        "<s>How?\nAnswer: so\n\nWhich?\nA. red\nB. blue\nAnswer: B\n\nQ1\nAnswer: A1\n\nQ2\nAnswer:"
    )


@pytest.mark.parametrize(
    ("prompt", "cued"),
    [
        ("Question: Who?\nAnswer:", "Question: Who?\nAnswer:"),
        ("Who? Answer: ", "Who? Answer:"),
        ("Who?\nAnswer in a few words.", "Who?\nAnswer in a few words:"),
        ("Who? Answer in a few words.", "Who? Answer in a few words:"),
        ("Which was the Answer", "Which was the Answer\nAnswer:"),
        ("What is The Answer?", "What is The Answer?\nAnswer:"),
        ("MyAnswer:", "MyAnswer:\nAnswer:"),
        ("Which?\nA. red\nB. Answer blue.", "Which?\nA. red\nB. Answer blue.\nAnswer:"),
        ("Answer first. Then explain?", "Answer first. Then explain?\nAnswer:"),
    ],
)
def test_few_shot_cue_is_not_doubled(tokenizer: PreTrainedTokenizerFast, prompt: str, cued: str) -> None:
    assert _text(tokenizer, "few_shot", [prompt]) == "<s>" + cued


class Recorder:
    """Stands for a tokenizer; keeps the text."""

    eos_token, eos_token_id = "", None

    def __call__(self, text: str) -> dict[str, list[int]]:
        self.text = text
        return {"input_ids": []}


def _cued(prompt: str) -> str:
    recorder = Recorder()
    get_template("few_shot").render([prompt], [], [], cast(Any, recorder))
    return recorder.text


PLAIN_CUE = re.compile(r"(?:^|(?<=\s))Answer(?: [^.:?!\n]*)?[.:]$")
"""A cue in one expression, which looks at a text again from each "Answer" on."""


@given(
    st.lists(st.sampled_from([" Answer", "Answer", "x", " ", "\t", "\n", ".", ":", "?", "!", "A. "])).map(
        "".join
    )
)
def test_what_counts_as_a_cue(prompt: str) -> None:
    text = prompt.rstrip()
    line = text.rpartition("\n")[2]
    is_cue = PLAIN_CUE.search(line) and not line.startswith("A. ")
    assert _cued(prompt) == (text[:-1] + ":" if is_cue else f"{text}\nAnswer:")


@pytest.mark.parametrize("unit", ["Answer ", "Answer", " Answer.", ". Answer", "Answer:\t"])
@pytest.mark.parametrize("end", ["", "x", ":"])
def test_long_prompts_take_no_longer_than_their_length(unit: str, end: str) -> None:
    """From each "Answer" to the end of a megabyte would be hours."""
    prompt = unit * (1_000_000 // len(unit)) + end
    assert _cued(prompt).startswith(prompt[:900_000])


def test_plain(tokenizer: PreTrainedTokenizerFast) -> None:
    assert _text(tokenizer, "plain", ["def f(x):\n"]) == "<s>def f(x):\n"
    assert _text(tokenizer, "plain", ["Once upon "]) == "<s>Once upon"
    assert _text(tokenizer, "plain", ["Q1", "Q2"], ["A1"]) == "<s>Q1\nA1\nQ2"
    with pytest.raises(InvalidInput, match=r"domain\.shots: the template plain shows no examples"):
        _text(tokenizer, "plain", ["Q1"], shots=[SHOT])


@pytest.mark.parametrize("name", ["vicuna", "llama-2", "few_shot", "plain"])
def test_texts_are_left_open_for_the_answer(
    tokenizer: PreTrainedTokenizerFast, make_tokenizer: MakeTokenizer, name: str
) -> None:
    template = get_template(name)
    closing = make_tokenizer(close_text=True)
    assert closing("x")["input_ids"][-1] == closing.eos_token_id
    assert template.render(["Q1"], [], [], closing) == template.render(["Q1"], [], [], tokenizer)


def test_items_are_asked_in_the_templates_way(tokenizer: PreTrainedTokenizerFast) -> None:
    chat = render_prompt(get_template("chat"), CHOICE, [], [], tokenizer)
    assert "right option.</s><|assistant|>" in tokenizer.decode(chat)
    few_shot = render_prompt(get_template("few_shot"), CHOICE, [], [SHOT], tokenizer)
    assert tokenizer.decode(few_shot) == "<s>How?\nAnswer: so\n\nWhich?\nA. red\nB. blue\nAnswer:"
    talk = Item("t", ("Q1", "Q2"))
    first, second = (
        render_prompt(get_template("plain"), talk, answers, [], tokenizer) for answers in ([], ["A1"])
    )
    assert (tokenizer.decode(first), tokenizer.decode(second)) == ("<s>Q1", "<s>Q1\nA1\nQ2")


def test_every_turn_but_the_last_needs_its_answer(tokenizer: PreTrainedTokenizerFast) -> None:
    for name in template_names():
        with pytest.raises(ValueError, match="2 turns need 1 earlier answers, not 0"):
            get_template(name).render(["Q1", "Q2"], [], [], tokenizer)


def test_definitions_tell_templates_apart(tokenizer: PreTrainedTokenizerFast) -> None:
    definitions = {get_template(name).definition(tokenizer) for name in template_names()}
    assert len(definitions) == len(template_names()) == 5
    assert tokenizer.chat_template in definitions


def test_unknown_template() -> None:
    with pytest.raises(
        InvalidInput, match=r"domain\.template: unknown template 'alpaca'; known: chat, few_shot, "
    ):
        get_template("alpaca")
