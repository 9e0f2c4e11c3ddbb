from __future__ import annotations

import re

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from skipmap.calibration.items import Item
from skipmap.metrics.bleu import Bleu
from skipmap.metrics.rouge import Rouge1
from skipmap.metrics.squad import ExactMatch, TokenF1
from skipmap.metrics.trivial import copy_baseline, corpus_figure, first_sentence


def _item(prompt: str, *references: str) -> Item:
    return Item("1", (prompt,), (references,))


LONG = (
    "This paragraph is the text itself and no instruction, "
    + "since it goes on and on, " * 6
    + "and then ends."
)


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("Summarize: A dog ran. It was fast.", "A dog ran."),
        ("Summarize the following text:\nA dog ran. It was fast.", "A dog ran."),
        ("Translate German to English: Der Hund lief . Er war", "Der Hund lief ."),
        ("Translate German to English: ohne Ende", "ohne Ende"),
        ("Summarize the article below in two sentences.\n\nA dog ran! It was fast.", "A dog ran!"),
        ("A dog ran. It was fast.", "A dog ran."),
        ("He said loudly to all of them: go. Now.", "He said loudly to all of them: go."),
        (LONG + "\n\nSecond paragraph.", LONG),
        ('He cried "stop!" and ran. Then', 'He cried "stop!" and ran.'),
        ("He cried 'stop.' Then", "He cried 'stop.'"),
        ("Dr. Smith of the U.S. army paid 3.5 million. More", "Dr. Smith of the U.S. army paid 3.5 million."),
        ("Really?! Yes.", "Really?!"),
        ("A title\nand a text.", "A title"),
        ("猫が走った。速い。", "猫が走った。"),
        ("Summarize:", "Summarize:"),
        ("At 10:30 it rained. Then", "At 10:30 it rained."),
    ],
)
def test_first_sentence(prompt: str, sentence: str) -> None:
    assert first_sentence(_item(prompt, "r")) == sentence


PLAIN_END = re.compile(r"[.!?…]+[\"'”\u2019»)\]]*(?=\s|$)|[。\uff01\uff1f]")
PLAIN_ABBREVIATION = re.compile(
    r"(?:^|[\s.(])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Sen|Rep|Gov|No|vs|bzw|ca)\Z"
)


def plain_first_sentence(line: str) -> str:
    """The same by expressions that look at a text again from each mark on."""
    for end in PLAIN_END.finditer(line):
        following = line[end.end() :].lstrip()
        abbreviated = end.group() == "." and PLAIN_ABBREVIATION.search(line[: end.start()])
        if not following or not (abbreviated or following[0].islower()):
            return line[: end.end()]
    return line


@given(
    st.lists(
        st.sampled_from(
            [".", "!", "…", "。", '"', ")", " ", "\t", "Dr", "Prof", "bzw", "xbzw", "a", "B", "5"]
        )
    )
    .map("".join)
    .map(str.strip)
)
def test_where_a_sentence_ends(line: str) -> None:
    assert first_sentence(_item(line, "r")) == plain_first_sentence(line)


@pytest.mark.parametrize("unit", [".", "!'", "x. ", "Dr. ", '."', ".)x", "a b: ", "x "])
@pytest.mark.parametrize("end", ["x", "."])
def test_long_prompts_take_no_longer_than_their_length(unit: str, end: str) -> None:
    """From each mark to the end of a megabyte would be hours."""
    prompt = unit * (1_000_000 // len(unit)) + end
    assert prompt.endswith(first_sentence(_item(prompt, "r"))[-100:])


def test_the_scored_turn_is_copied() -> None:
    item = Item("1", ("First turn.", "Second turn. More.", "Third."), ((), ("r",), ()))
    assert first_sentence(item) == "Second turn."
    assert first_sentence(Item("1", ("Only turn. More.",))) == "Only turn."


def test_copying_beats_the_empty_answer() -> None:
    items = [_item("Summarize: Red dogs ran. Far.", "red dogs"), _item("Summarize: Blue. Cats.", "green")]
    # "Red dogs ran." against "red dogs": 2 * 2 / (3 + 2); nothing shared in the second.
    assert TokenF1().baseline(items) == Rouge1().baseline(items) == pytest.approx(0.4)
    assert ExactMatch().baseline(items) == 0.0
    assert ExactMatch().baseline([_item("Answer: Blue. Cats.", "blue")]) == 1.0


def test_the_empty_answer_can_win() -> None:
    items = [_item("Who is it? Say so.", "the"), _item("Which one? Say so.", "one")]
    # Empty: right for "the" (nothing after normalisation), 1/2; copied: "which one" gets 2/3, so 1/3.
    assert TokenF1().baseline(items) == 0.5


def test_bleu_baseline_is_the_copied_sentences_corpus_bleu() -> None:
    items = [
        _item("Translate: The old man went to the sea. Then he slept.", "The old man went to the lake."),
        _item("Translate: Das Haus ist rot. Ja.", "The house is red."),
    ]
    copied = ["The old man went to the sea.", "Das Haus ist rot."]
    library = (
        sacrebleu.corpus_bleu(copied, [["The old man went to the lake.", "The house is red."]]).score / 100
    )
    assert Bleu().baseline(items) == library > 0.3


def test_no_items_is_zero() -> None:
    assert copy_baseline(Bleu(), []) == corpus_figure(Bleu(), [], []) == 0.0
