"""What the address of a list asks for. What of it cannot be used is left out and told of; the rest holds.

An address may be old, cut short or typed by hand. Its page shows the list all the same, with the problem beside the
filter where it has a control, else in a line above the list, and has the status of a wrong request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

from flask import g, request

from api.paging import bad_cursor, read_cursor
from api.requests import Query, validated
from models.base import is_id
from skipmap.errors import InvalidInput
from web.forms.problems import plain
from web.forms.text import shortened

Model = TypeVar("Model", bound=Query)
_CURSOR = "cursor"
_LOST = "This place in the list is not known, so the list begins at its start."
_MOST_CHARACTERS = 300


def read_asked(
    model: type[Model], given: Mapping[str, Any], filters: Collection[str]
) -> tuple[Model, dict[str, str]]:
    """Parameters as a model, and what is wrong with those of ``filters``, which have controls of these names."""
    rest = dict(given)
    errors: dict[str, str] = {}
    while True:
        try:
            return cast(Model, validated(model, rest)), errors
        except InvalidInput as error:
            name = error.field.partition(".")[0]
            if rest.pop(name, None) is None:
                raise
            if name in filters:
                errors[name] = problem_of(error.problem)
            else:
                note_leftover(name, error.problem)


def place_asked(kind: str, is_place: Callable[[Any], bool] = is_id) -> Any:
    """Where in a list of this kind the address's cursor points, None for the start."""
    try:
        place = read_cursor(request.args.get(_CURSOR) or None, kind)
        if place is not None and not is_place(place):
            raise bad_cursor()
    except InvalidInput:
        note_lost_place()
        return None
    return place


def note_lost_place() -> None:
    """Tell that the address's cursor leads nowhere in the list."""
    note_leftover("", _LOST)


def problem_of(text: str) -> str:
    """What is wrong with a filter, as a sentence; the address is wrong from now on."""
    g.is_asked_wrongly = True
    return shortened(plain(text), _MOST_CHARACTERS)


def note_leftover(name: str, text: str) -> None:
    """Tell of a part of the address that has no control."""
    line = problem_of(text)
    leftovers().append(f"{shortened(name, _MOST_CHARACTERS)}: {line}" if name else line)


def leftovers() -> list[str]:
    """What is told of parts of the address that have no control."""
    return cast("list[str]", g.setdefault("leftovers", []))


def is_asked_wrongly() -> bool:
    """Whether anything of the address could not be used."""
    return bool(g.get("is_asked_wrongly", False))
