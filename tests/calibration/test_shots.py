from __future__ import annotations

import pytest

from skipmap.calibration.items import Item
from skipmap.calibration.shots import answer_text, render_user, shot_exchanges

CHOICE = Item("c", ("Which?",), choices=("red", "blue", "green"), answer=2)


def test_options_are_lettered_and_asked_for() -> None:
    assert render_user(CHOICE, 0) == (
        "Which?\nA. red\nB. blue\nC. green\nAnswer with the letter of the right option."
    )
    assert render_user(CHOICE, 0, instruct=False) == "Which?\nA. red\nB. blue\nC. green"


def test_only_the_last_turn_lists_options() -> None:
    item = Item("c", ("Hello", "Which?"), choices=("p", "q"), answer=0)
    assert render_user(item, 0) == "Hello"
    assert render_user(item, 1).startswith("Which?\nA. p\nB. q\n")


@pytest.mark.parametrize(
    ("item", "answer"),
    [
        (CHOICE, "C"),
        (Item("r", ("q",), (("first", "second"),)), "first"),
        (Item("t", ("q1", "q2"), (("one",), ("two",))), "two"),
        (Item("b", ("q",), (("text",),), choices=("p", "q")), "text"),
    ],
)
def test_answer_text(item: Item, answer: str) -> None:
    assert answer_text(item) == answer


def test_no_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="'n' has neither a reference nor an answer"):
        answer_text(Item("n", ("q",)))


def test_exchanges_stop_at_the_scored_turn() -> None:
    assert shot_exchanges(Item("t", ("q1", "q2", "q3"), (("a1",), ("a2",), ()))) == [
        ("q1", "a1"),
        ("q2", "a2"),
    ]
    assert shot_exchanges(Item("t", ("q1", "q2"), ((), ("a2",)))) == []
    assert shot_exchanges(CHOICE, instruct=False) == [("Which?\nA. red\nB. blue\nC. green", "C")]
