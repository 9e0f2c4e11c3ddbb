"""Spec-Bench's ``question.jsonl``: rows of ``question_id``, ``category``, ``turns`` and maybe ``reference``.

References stay whole: the numeric metric itself finds the number after GSM8K's ``####`` marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skipmap.calibration.items import Item
from skipmap.calibration.lines import Numbered, file_label, line_label, objects
from skipmap.calibration.records import build_item, category_counts, of_category, refuse_duplicates
from skipmap.errors import InvalidInput


def is_spec_bench(record: Mapping[str, Any]) -> bool:
    """Whether a record has the two fields that mark a Spec-Bench question."""
    return "question_id" in record and "turns" in record


def load_spec_bench(path: Path, category: str | None = None) -> list[Item]:
    """Questions of one category; ``category`` may be None when the file has just one."""
    with path.open("rb") as file:
        return questions_of(objects(file, path.name), path.name, category)


def questions_of(numbered: Iterable[Numbered], name: str, category: str | None) -> list[Item]:
    """Questions of one category from numbered records."""
    placed = [(f"line {number}", _item(record, line_label(name, number))) for number, record in numbered]
    refuse_duplicates(placed, file_label(name))
    items = [item for _, item in placed]
    if category is not None:
        return of_category(items, category, file_label(name))
    if len({item.category for item in items}) > 1:
        raise InvalidInput(
            "calibration.category",
            f"required, since {file_label(name)} has several; choose one of {category_counts(items)}",
        )
    return items


def _item(record: Mapping[str, Any], where: str) -> Item:
    if not is_spec_bench(record):
        raise InvalidInput(where, "question_id: required with turns in a Spec-Bench file")
    if not isinstance(record["turns"], list):
        raise InvalidInput(where, "turns: must be a list of strings")
    ours = {name: record.get(name) for name in ("turns", "reference", "category")}
    return build_item({"id": record["question_id"], **ours}, where)
