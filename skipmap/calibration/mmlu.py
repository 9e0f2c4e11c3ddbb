"""MMLU's CSV layouts: a header ``question,choice0,...,answer``, or six columns without one.

``NAME_dev.csv`` in the same folder, or in a folder ``dev`` beside it, holds the few-shot examples.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from skipmap.calibration.items import Item
from skipmap.calibration.lines import decode, file_label, line_label
from skipmap.calibration.records import build_item
from skipmap.errors import InvalidInput

_PART = re.compile(r"_(test|val|dev)$")
_CHOICE = re.compile(r"choice(\d+)")


@dataclass(frozen=True)
class Layout:
    """Which columns hold what, and how many columns a row has."""

    question: int
    choices: tuple[int, ...]
    answer: int
    width: int


_BARE = Layout(question=0, choices=(1, 2, 3, 4), answer=5, width=6)


def load_mmlu(path: Path) -> list[Item]:
    """Questions of one subject file; an id is file name and row number, the category is the subject."""
    return list(mmlu_items(path))


def mmlu_items(path: Path, start: int = 0) -> Iterator[Item]:
    """Like ``load_mmlu``, question by question from the one at index ``start`` on."""
    rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise InvalidInput(file_label(path.name), "empty; give rows of question, options and answer")
    layout = header_layout(first[1])
    if layout is None:
        _refuse_unknown_layout(first, path.name)
        layout, rows = _BARE, chain([first], rows)
    number, category = 0, subject(path)
    for number, (line, row) in enumerate(rows, start=1):
        if number > start:
            yield _item(row, layout, f"{path.stem}-{number}", category, line_label(path.name, line))
    if number == 0:
        raise InvalidInput(file_label(path.name), "has a header but no question")


def load_dev_shots(path: Path) -> list[Item]:
    """Few-shot examples that lie beside a subject file, in file order; none when there is no such file."""
    name = f"{subject(path)}_dev.csv"
    for candidate in (path.parent / name, path.absolute().parent.parent / "dev" / name):
        if candidate.is_file():
            return [] if path.exists() and candidate.samefile(path) else load_mmlu(candidate)
    return []


def subject(path: Path) -> str:
    """Subject of a file name: ``astronomy`` of ``astronomy_test.csv``."""
    return _PART.sub("", path.stem)


def is_mmlu(path: Path) -> bool:
    """Whether the first row of a CSV file has one of the two layouts."""
    first = next(_rows(path), None)
    return first is not None and (header_layout(first[1]) is not None or _is_bare(first[1]))


def header_layout(row: Sequence[str]) -> Layout | None:
    """Columns of question, options in order, and answer when the row is MMLU's header; else None."""
    names = [cell.strip().lower() for cell in row]
    choices = sorted(
        (int(match[1]), at) for at, name in enumerate(names) if (match := _CHOICE.fullmatch(name))
    )
    if "question" not in names or "answer" not in names or len(choices) < 2:
        return None
    return Layout(
        question=names.index("question"),
        choices=tuple(at for _, at in choices),
        answer=names.index("answer"),
        width=len(row),
    )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Non-blank rows, each with the number of its first line."""
    text = _text(path)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    start = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(line_label(path.name, start), f"not valid CSV: {error}") from None


def _text(path: Path) -> str:
    data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        return decode(data.split(b"\n")[number - 1], line_label(path.name, number))


def _is_bare(row: Sequence[str]) -> bool:
    return len(row) == _BARE.width and row[-1].strip().upper() in {"A", "B", "C", "D"}


def _refuse_unknown_layout(first: tuple[int, list[str]], name: str) -> None:
    line, row = first
    if len(row) != _BARE.width:
        raise InvalidInput(
            line_label(name, line),
            f"neither MMLU's header (question, choice0, ..., answer) nor its six columns (given: {len(row)});"
            " for another table name its columns in calibration.columns",
        )


def _item(row: Sequence[str], layout: Layout, item_id: str, category: str, where: str) -> Item:
    if len(row) != layout.width:
        raise InvalidInput(
            where, f"has {len(row)} columns, not {layout.width}; put quotes around text that holds a comma"
        )
    cell = row[layout.answer].strip()
    return build_item(
        {
            "id": item_id,
            "prompt": row[layout.question],
            "choices": [row[at] for at in layout.choices],
            "answer": int(cell) if re.fullmatch(r"[0-9]{1,2}", cell) else cell,
            "category": category,
        },
        where,
    )
