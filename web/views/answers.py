"""Answers to each prompt, dense beside a configuration, a page at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skipmap.calibration.items import Item
from skipmap.profiling.report.samples import Piece
from web.views.diffs import compare_texts
from web.views.items import ShownItem, shown_item

PROMPTS_A_PAGE = 20
LONG_CHARACTERS = 1200
"""Longer texts are folded."""

Part = Literal["calibration", "held-out"]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer. ``score`` is None where the metric is no mean over prompts, ``accept_length`` without a step."""

    pieces: tuple[Piece, ...]
    accept_length: float | None
    score: float | None

    @property
    def is_long(self) -> bool:
        """Whether it is to be folded."""
        return sum(len(piece.text) for piece in self.pieces) > LONG_CHARACTERS


@dataclass(frozen=True)
class Pair:
    """A prompt with both answers; ``item`` is None where its text is not known here."""

    id: str
    item: ShownItem | None
    dense: Answer
    sparse: Answer
    differs: bool


@dataclass(frozen=True)
class AnswerPage:
    """A page of pairs. ``found``: prompts that fit the filter, of ``total``; ``differing``: whose answers differ."""

    part: Part
    pairs: tuple[Pair, ...]
    number: int
    pages: int
    found: int
    total: int
    differing: int
    has_scores: bool


@dataclass(frozen=True)
class Answers:
    """All records of one part, of dense and of a configuration, with the metric over all of them."""

    part: Part
    dense: Sequence[Record]
    sparse: Sequence[Record]
    dense_metric: float
    sparse_metric: float


def answer_page(
    answers: Answers, items: Mapping[str, Item] | None, number: int, *, differing_only: bool
) -> AnswerPage:
    """The ``number``-th page, from 1 on, in the order of the records; the last one when there are fewer."""
    others = {row["id"]: row for row in answers.sparse}
    pairs = [(row, others[row["id"]]) for row in answers.dense if row["id"] in others]
    different = [pair for pair in pairs if pair[0]["text"] != pair[1]["text"]]
    found = different if differing_only else pairs
    pages = max(1, math.ceil(len(found) / PROMPTS_A_PAGE))
    number = min(number, pages)
    start = (number - 1) * PROMPTS_A_PAGE
    scored = _is_mean(answers.dense, answers.dense_metric) and _is_mean(answers.sparse, answers.sparse_metric)
    shown = found[start : start + PROMPTS_A_PAGE]
    return AnswerPage(
        answers.part,
        tuple(_pair(dense, sparse, items or {}, scored) for dense, sparse in shown),
        number,
        pages,
        len(found),
        len(pairs),
        len(different),
        scored,
    )


def _pair(dense: Record, sparse: Record, items: Mapping[str, Item], scored: bool) -> Pair:
    left, right = compare_texts(dense["text"], sparse["text"])
    item = items.get(dense["id"])
    return Pair(
        str(dense["id"]),
        None if item is None else shown_item(item),
        _answer(dense, left, scored),
        _answer(sparse, right, scored),
        dense["text"] != sparse["text"],
    )


def _answer(row: Record, pieces: tuple[Piece, ...], scored: bool) -> Answer:
    return Answer(
        pieces,
        row["emitted"] / row["steps"] if row["steps"] else None,
        row["stats"][0] if scored else None,
    )


def _is_mean(rows: Sequence[Record], metric: float) -> bool:
    """Whether each prompt has one statistic whose mean is the metric: only then is it the prompt's own score."""
    if not rows or any(len(row["stats"]) != 1 for row in rows):
        return False
    mean = sum(row["stats"][0] for row in rows) / len(rows)
    return math.isclose(mean, metric, rel_tol=1e-6, abs_tol=1e-9)
