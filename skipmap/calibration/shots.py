"""How an item reads: the user's text of a turn, and the gold answer that a few-shot example shows."""

from __future__ import annotations

from skipmap.calibration.items import Item
from skipmap.calibration.records import LETTERS

CHOICE_INSTRUCTION = "Answer with the letter of the right option."


def render_user(item: Item, turn: int, *, instruct: bool = True) -> str:
    """Text of one user turn; the last turn of a multiple-choice item lists its lettered options.

    ``instruct`` adds the sentence that asks for a letter; templates that show a label instead leave it out.
    """
    text = item.turns[turn]
    if not item.choices or turn != len(item.turns) - 1:
        return text
    options = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, item.choices, strict=False)]
    return "\n".join([text, *options, *([CHOICE_INSTRUCTION] if instruct else [])])


def answer_text(item: Item) -> str:
    """Gold answer of an item: the letter of the right option, else the first reference of the scored turn.

    Raises ValueError for an item that has neither.
    """
    if item.choices and item.answer is not None:
        return LETTERS[item.answer]
    if not item.scored_references:
        raise ValueError(f"item {item.id!r} has neither a reference nor an answer")
    return item.scored_references[0]


def can_be_shot(item: Item) -> bool:
    """Whether an example can be shown whole: every turn up to the scored one has a gold answer."""
    return bool(shot_exchanges(item))


def shot_exchanges(item: Item, *, instruct: bool = True) -> list[tuple[str, str]]:
    """User text and gold answer of each turn of an example; empty when a turn has no gold answer."""
    if item.choices and item.answer is not None:
        last = len(item.turns) - 1
    elif item.scored_turn is not None:
        last = item.scored_turn
    else:
        return []
    earlier = item.references[:last]
    if len(earlier) < last or not all(earlier):
        return []
    answers = [*(references[0] for references in earlier), answer_text(item)]
    return [(render_user(item, turn, instruct=instruct), answer) for turn, answer in enumerate(answers)]
