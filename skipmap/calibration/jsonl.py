"""Skipmap's own calibration format: one JSON object a line.

Fields: ``id`` (string or whole number), ``prompt`` (string) or ``turns`` (list of strings), ``reference``
(string or list of strings; for several turns one entry a turn), ``choices`` with ``answer`` (index from 0, or
letter from A), ``category``, ``meta`` (object).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from skipmap.calibration.items import Item
from skipmap.calibration.lines import Numbered, file_label, line_label, objects
from skipmap.calibration.records import build_item, refuse_duplicates


def load_jsonl(path: Path) -> list[Item]:
    """Items of a calibration file; the first bad line raises InvalidInput naming file, line and field."""
    with path.open("rb") as file:
        return parse_jsonl(file, path.name)


def parse_jsonl(lines: Iterable[bytes], name: str) -> list[Item]:
    """Items of a calibration file that arrives as lines of bytes; ``name`` stands for it in messages."""
    return items_of(objects(lines, name), name)


def items_of(numbered: Iterable[Numbered], name: str) -> list[Item]:
    """Items of numbered records; ids must be unique."""
    placed = [(f"line {number}", build_item(record, line_label(name, number))) for number, record in numbered]
    refuse_duplicates(placed, file_label(name))
    return [item for _, item in placed]
