"""From one plain record (a JSON object, a table row) to one Item; errors name the place and the field."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput

FIELDS = ("id", "prompt", "turns", "reference", "choices", "answer", "category", "meta")
LETTERS = string.ascii_uppercase
_SHOWN_CHARACTERS = 60


def build_item(record: Mapping[str, Any], where: str) -> Item:
    """Check one record of the JSONL format and make its item; ``where`` begins every error message."""
    for name in record:
        if name not in FIELDS:
            raise InvalidInput(where, f"{name}: unknown field; allowed: {', '.join(FIELDS)}")
    _refuse_unusable_text(record, where)
    turns = _turns(record, where)
    choices = _choices(record.get("choices"), where)
    return Item(
        id=_id(record, where),
        turns=turns,
        references=references_of(record.get("reference"), len(turns), where),
        choices=choices,
        answer=_answer(record.get("answer"), len(choices), where),
        category=_category(record.get("category"), where),
        meta=_meta(record.get("meta"), where),
    )


def references_of(value: Any, n_turns: int, where: str) -> tuple[tuple[str, ...], ...]:
    """Acceptable answers for each turn; empty strings and null stand for none.

    One turn: every nested string is acceptable. Several turns: a list has one entry a turn, a bare string
    belongs to the last turn.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        value = [*[None] * (n_turns - 1), value]
    if not isinstance(value, list):
        raise _bad_reference(value, where)
    if n_turns == 1:
        value = [value]
    if len(value) != n_turns:
        raise InvalidInput(
            where,
            f"reference: has {len(value)} entries for {n_turns} turns; give one entry a turn (null for none)",
        )
    found = tuple(_strings(entry, where) for entry in value)
    return found if any(found) else ()


def answer_index(value: Any, n_choices: int, where: str) -> int:
    """Index of the right option from a whole number (from 0) or a letter (from A)."""
    index = value
    if isinstance(value, str):
        letter = value.strip().upper()
        index = LETTERS.index(letter) if len(letter) == 1 and letter in LETTERS else None
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < n_choices:
        last = n_choices - 1
        raise InvalidInput(
            where, f"answer: must be an index 0-{last} or a letter A-{LETTERS[last]} (given: {shown(value)})"
        )
    return index


def refuse_duplicates(items: Iterable[tuple[str, Item]], name: str) -> None:
    """Raise on two items with one id; ``items`` pairs each item with its place ("line 7")."""
    places: dict[str, str] = {}
    for place, item in items:
        first = places.setdefault(item.id, place)
        if first is not place:
            raise InvalidInput(
                name, f"id: {shown(item.id)} is given twice, at {first} and {place}; ids must be unique"
            )


def of_category(items: Sequence[Item], category: str, name: str) -> list[Item]:
    """Items of one category; an unknown one is an error that lists what there is."""
    chosen = [item for item in items if item.category == category]
    if not chosen:
        raise InvalidInput(
            "calibration.category", f"{name} has no category {category!r}; it has {category_counts(items)}"
        )
    return chosen


def category_counts(items: Iterable[Item]) -> str:
    """Categories with their counts in the order of first appearance, for messages."""
    counts = Counter(item.category for item in items)
    return ", ".join(f"{category or '(none)'} ({count})" for category, count in counts.items())


def shown(value: Any) -> str:
    """Short form of a given value for messages."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def _id(record: Mapping[str, Any], where: str) -> str:
    value = record.get("id")
    if value is None:
        raise InvalidInput(
            where, "id: required; the split into calibration and held-out parts is keyed by it"
        )
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(where, f"id: must be a non-empty string or a whole number (given: {shown(value)})")
    return value


def _turns(record: Mapping[str, Any], where: str) -> tuple[str, ...]:
    prompt, turns = record.get("prompt"), record.get("turns")
    if prompt is not None and turns is not None:
        raise InvalidInput(where, "prompt: given together with turns; give one of the two")
    if prompt is None and turns is None:
        raise InvalidInput(where, "prompt: required; give prompt (a string) or turns (a list of strings)")
    field = "prompt" if turns is None else "turns"
    values = [prompt] if turns is None else turns
    if not isinstance(values, list) or not values:
        raise InvalidInput(where, f"turns: must be a non-empty list of strings (given: {shown(turns)})")
    for value in values:
        if not isinstance(value, str):
            raise InvalidInput(where, f"{field}: must be text (given: {shown(value)})")
        if not value.strip():
            raise InvalidInput(where, f"{field}: empty; the model needs text to answer")
    return tuple(values)


def _choices(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(choice, str) and choice.strip() for choice in value):
        raise InvalidInput(where, f"choices: must be a list of non-empty strings (given: {shown(value)})")
    if not 2 <= len(value) <= len(LETTERS):
        raise InvalidInput(where, f"choices: must hold 2 to {len(LETTERS)} options (given: {len(value)})")
    return tuple(value)


def _answer(value: Any, n_choices: int, where: str) -> int | None:
    if value is None:
        return None
    if not n_choices:
        raise InvalidInput(where, "answer: needs choices; give the options, or put the answer into reference")
    return answer_index(value, n_choices, where)


def _category(value: Any, where: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidInput(where, f"category: must be a non-empty string (given: {shown(value)})")
    return value


def _meta(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(where, f"meta: must be an object (given: {shown(value)})")
    return value


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if not isinstance(value, list):
        raise _bad_reference(value, where)
    return tuple(text for entry in value for text in _strings(entry, where))


def _bad_reference(value: Any, where: str) -> InvalidInput:
    return InvalidInput(where, f"reference: must be a string or a list of strings (given: {shown(value)})")


def _refuse_unusable_text(value: Any, where: str, field: str = "") -> None:
    # Half a surrogate pair cannot be encoded, and PostgreSQL stores no NUL: both would fail later.
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidInput(where, f"{field}: holds a NUL character; remove it")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                where, f"{field}: holds half a surrogate pair, which is no valid Unicode"
            ) from None
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            _refuse_unusable_text(key, where, field or "a field name")
            _refuse_unusable_text(entry, where, field or key)
    elif isinstance(value, list):
        for entry in value:
            _refuse_unusable_text(entry, where, field)
