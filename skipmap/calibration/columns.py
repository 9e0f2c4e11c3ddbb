"""Where each of our fields lies in someone else's table.

A mapping goes from our field to a column or to a dotted path inside one: ``answers.text`` takes ``text`` of
the column ``answers`` (of each entry where that is a list), ``turns.0.value`` its first entry's ``value``. A
field without a mapping takes the column of its own name, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skipmap.calibration.records import FIELDS
from skipmap.errors import InvalidInput, choices

Paths = dict[str, tuple[str, ...]]
_FIELD = "calibration.columns"


def paths_of(mapping: Mapping[str, str], existing: Sequence[str]) -> Paths:
    """Path of each field (column first); an unknown field or column is an error that lists what there is."""
    for field in mapping:
        if field not in FIELDS:
            raise InvalidInput(_FIELD, f"unknown field {field!r}; our fields are {', '.join(FIELDS)}")
    paths = {field: _path(field, wanted, existing) for field, wanted in mapping.items()}
    rivals = {"turns"} if "prompt" in paths else {"prompt"} if "turns" in paths else set()
    for field in FIELDS:
        if field in existing and field not in paths and field not in rivals:
            paths[field] = (field,)
    if "prompt" not in paths and "turns" not in paths:
        raise InvalidInput(
            _FIELD,
            f"name the column of prompt (or turns), as prompt=COLUMN; the data set has {choices(existing)}",
        )
    return paths


def record_of(row: Mapping[str, Any], paths: Paths, place: str) -> dict[str, Any]:
    """Our record of one row of a data set."""
    return {field: _value(row, path, f"{field}={'.'.join(path)}, {place}") for field, path in paths.items()}


def _path(field: str, wanted: str, existing: Sequence[str]) -> tuple[str, ...]:
    if wanted in existing:
        return (wanted,)
    column, *steps = wanted.split(".")
    if column not in existing or not all(steps):
        raise InvalidInput(_FIELD, f"{field}={wanted}: no such column; the data set has {choices(existing)}")
    return (column, *steps)


def _value(row: Mapping[str, Any], path: Sequence[str], place: str) -> Any:
    value: Any = row[path[0]]
    for step in path[1:]:
        value = _step(value, step, place)
    return value


def _step(value: Any, step: str, place: str) -> Any:
    if isinstance(value, Mapping):
        if step not in value:
            raise InvalidInput(_FIELD, f"{place}: has no {step!r}; it has {choices(map(str, value))}")
        return value[step]
    if isinstance(value, list):
        if not step.isdecimal():
            return [_step(entry, step, place) for entry in value]
        if int(step) < len(value):
            return value[int(step)]
        raise InvalidInput(_FIELD, f"{place}: has {len(value)} entries, so none at {step}")
    raise InvalidInput(_FIELD, f"{place}: {step!r} is asked of a value that has no parts ({value!r:.60})")
