"""Uploads: calibration files, checked whole and with bounded memory before anything is stored."""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import IO, Any, Literal

from flask import request

from api.greenlets import aside
from api.problems import TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, ProblemError
from api.requests import body_pieces, refuse_encoded
from api.settings import ApiSettings
from skipmap.calibration.items import Item
from skipmap.calibration.jsonl import items_of
from skipmap.calibration.lines import Numbered, file_label, line_label, objects
from skipmap.calibration.mmlu import is_mmlu, mmlu_items
from skipmap.calibration.records import refuse_duplicates
from skipmap.calibration.spec_bench import is_spec_bench, questions_of
from skipmap.errors import InvalidInput

JSON_LINES = ("application/x-ndjson", "application/jsonl")
CSV = "text/csv"
MEDIA_TYPES = (*JSON_LINES, CSV)

Format = Literal["jsonl", "spec_bench", "mmlu"]
_MOST_CATEGORIES = 50
_DEEPEST = 32
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Upload:
    """A checked file. ``statistics``: what a reader wants to know before a job is made of it."""

    content: bytes
    items: int
    statistics: dict[str, Any]


class BadFile(InvalidInput):
    """A file that cannot be used; says of itself what the first of its problems says."""

    def __init__(self, problems: Sequence[InvalidInput]) -> None:
        super().__init__(problems[0].field, problems[0].problem)
        self.problems = tuple(problems)


def read_upload(settings: ApiSettings, name: str) -> Upload:
    """Read and check the request's body; ``name`` stands for the file in messages.

    Raises ProblemError for a wrong type or too many bytes, and InvalidInput that names the line.
    """
    is_table = _media_type() == CSV
    pieces = body_pieces(settings.upload_bytes, "a calibration file")
    return check_upload(settings, pieces, name, is_table=is_table)


def check_upload(
    settings: ApiSettings, pieces: Iterable[bytes], name: str, *, is_table: bool, most_problems: int = 1
) -> Upload:
    """Check a file that comes in pieces; ``name`` stands for it in messages, ``is_table``: CSV, else lines.

    Raises ProblemError for too many lines or questions, and BadFile with as many problems as asked for.
    """
    with tempfile.TemporaryDirectory(prefix="skipmap-upload-") as folder:
        path = Path(folder) / ("upload.csv" if is_table else "upload.jsonl")
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            size = file.tell()
        return aside(lambda: _upload(settings, path, name, most_problems), size)


def pieces_of(settings: ApiSettings, file: IO[bytes]) -> Iterator[bytes]:
    """A file of a form, piece by piece; raises ProblemError for one that is too large."""
    size = 0
    while piece := file.read(_PIECE_BYTES):
        size += len(piece)
        if size > settings.upload_bytes:
            raise ProblemError(TOO_LARGE, f"a calibration file may have {settings.upload_bytes} bytes")
        yield piece


def lines_of(file: IO[bytes], name: str, most_bytes: int, most_lines: int) -> Iterator[bytes]:
    """Lines of a file; raises InvalidInput for one that is too long, before it is read whole.

    Raises ProblemError for too many lines.
    """
    number = 0
    while line := file.readline(most_bytes + 1):
        number += 1
        if number > most_lines:
            raise _too_many(most_lines, "lines")
        if len(line) > most_bytes:
            raise InvalidInput(
                line_label(name, number), f"is longer than {most_bytes} bytes; an item must be shorter"
            )
        yield line


def _media_type() -> str:
    refuse_encoded()
    if request.mimetype not in MEDIA_TYPES:
        raise ProblemError(
            UNSUPPORTED_MEDIA_TYPE, f"send the file itself, as one of {', '.join(MEDIA_TYPES)}"
        )
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if charset not in ("utf-8", "utf8"):
        raise ProblemError(UNSUPPORTED_MEDIA_TYPE, f"the file must be UTF-8 (given: {charset})")
    return request.mimetype


def _upload(settings: ApiSettings, path: Path, name: str, most_problems: int) -> Upload:
    try:
        kind, items = _checked(settings, path, name)
    except InvalidInput as error:
        problems = [] if most_problems == 1 else list(islice(_problems(settings, path, name), most_problems))
        raise BadFile(problems or [error]) from None
    return Upload(path.read_bytes(), len(items), _statistics(kind, items))


def _problems(settings: ApiSettings, path: Path, name: str) -> Iterator[InvalidInput]:
    """What is wrong with a refused file, line by line: each is looked at by itself, whatever comes before it."""
    if path.suffix == ".csv":
        yield from _row_problems(path, name)
        return
    reader = _Reader(name)
    with path.open("rb") as file:
        lines = lines_of(file, name, settings.upload_line_bytes, settings.upload_items)
        for number in count(1):
            problem = None
            try:
                # After a line that is too long there are no more: where the next one begins is not known.
                line = next(lines, None)
                if line is None:
                    return
                reader.read(number, line)
            except InvalidInput as error:
                problem = error
            if problem is not None:
                yield problem


class _Reader:
    """Reads the lines of a file one by one. Which format it has, the first line that can be read tells."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._places: dict[str, str] = {}
        self._is_questions: bool | None = None

    def read(self, number: int, line: bytes) -> None:
        """Raise InvalidInput for what is wrong with this line."""
        if not line.strip():
            return
        record = self._record(number, line)
        if self._is_questions is None:
            self._is_questions = is_spec_bench(record)
        numbered = [(number, record)]
        (item,) = (
            questions_of(numbered, self._name, None) if self._is_questions else items_of(numbered, self._name)
        )
        place = f"line {number}"
        first = self._places.setdefault(item.id, place)
        refuse_duplicates([(first, item), (place, item)], file_label(self._name))

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        ((_, record),) = _shallow(objects([line], self._name, number), self._name)
        return record


def _row_problems(path: Path, name: str) -> Iterator[InvalidInput]:
    start, last = 0, ""
    while True:
        try:
            for _ in mmlu_items(path, start):
                start += 1
            return
        except InvalidInput as error:
            # One about the file as a whole comes again wherever reading begins.
            if str(error) == last:
                return
            start, last = start + 1, str(error)
            yield InvalidInput(error.field.replace(path.name, name), error.problem)


def _statistics(kind: Format, items: Sequence[Item]) -> dict[str, Any]:
    counts = Counter(item.category or "(none)" for item in items)
    lengths = [sum(map(len, item.turns)) for item in items]
    return {
        "format": kind,
        "categories": dict(counts.most_common(_MOST_CATEGORIES)),
        "with_reference": sum(item.scored_turn is not None for item in items),
        "with_choices": sum(bool(item.choices) for item in items),
        "most_turns": max(len(item.turns) for item in items),
        "prompt_characters": {
            "least": min(lengths),
            "median": statistics.median(lengths),
            "most": max(lengths),
        },
    }


def _too_many(most: int, what: str) -> ProblemError:
    return ProblemError(TOO_LARGE, f"a calibration file may have {most} {what}; send a part of it")


def _checked(settings: ApiSettings, path: Path, name: str) -> tuple[Format, Sequence[Item]]:
    if path.suffix == ".csv":
        return "mmlu", _mmlu(path, name, settings.upload_items)
    with path.open("rb") as file:
        lines = lines_of(file, name, settings.upload_line_bytes, settings.upload_items)
        numbered = _shallow(objects(lines, name), name)
        first = next(numbered)
        whole = chain([first], numbered)
        if is_spec_bench(first[1]):
            return "spec_bench", _questions(list(whole), name)
        return "jsonl", items_of(whole, name)


def _shallow(numbered: Iterable[Numbered], name: str) -> Iterator[Numbered]:
    # What nests deeply could be read here and overflow the stack of a reader further on.
    for number, record in numbered:
        if _is_deep(record, _DEEPEST):
            raise InvalidInput(line_label(name, number), f"is nested deeper than {_DEEPEST} levels")
        yield number, record


def _is_deep(value: Any, levels: int) -> bool:
    parts: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return levels == 0 or any(_is_deep(part, levels - 1) for part in parts)


def _mmlu(path: Path, name: str, most: int) -> list[Item]:
    try:
        if not is_mmlu(path):
            raise InvalidInput(
                file_label(name),
                "is no MMLU file: give its header (question, choice0, ..., answer) or its six columns, "
                "the last one a letter",
            )
        items = list(islice(mmlu_items(path), most + 1))
    except InvalidInput as error:
        # The copy has another name than the file that was sent.
        raise InvalidInput(error.field.replace(path.name, name), error.problem) from None
    if len(items) > most:
        raise _too_many(most, "questions")
    return items


def _questions(numbered: Sequence[Numbered], name: str) -> list[Item]:
    """Spec-Bench's questions of all categories; a job then picks one."""
    by_category: dict[Any, list[Numbered]] = {}
    for number, record in numbered:
        by_category.setdefault(repr(record.get("category")), []).append((number, record))
    placed = []
    for members in by_category.values():
        items = questions_of(members, name, None)
        placed += [(number, item) for (number, _), item in zip(members, items, strict=True)]
    placed.sort(key=lambda pair: pair[0])
    refuse_duplicates([(f"line {number}", item) for number, item in placed], file_label(name))
    return [item for _, item in placed]
