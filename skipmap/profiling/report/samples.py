"""Sample answers dense beside sparse: chosen by a fixed rule, compared word by word."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from skipmap.profiling.report.view import HeldOut, View

MOST_WORDS = 300
_WORD = re.compile(r"\s+|\S+")

Kind = Literal["same", "only"]


@dataclass(frozen=True)
class Piece:
    """A run of words; ``only``: the other text does not have it here."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Side:
    """One answer to a prompt. ``score`` only where the metric is a mean of per-prompt scores."""

    pieces: tuple[Piece, ...]
    accept_length: float | None
    score: float | None
    words: int


@dataclass(frozen=True)
class Sample:
    """A prompt with both answers. ``change``: sparse minus dense in the figure that ranks the prompts."""

    title: str
    id: str
    change: float
    dense: Side
    sparse: Side


@dataclass(frozen=True)
class Samples:
    """Chosen samples of one configuration, with the rule. ``by_score``: ranked by score, else by accept length."""

    skip: str
    by_score: bool
    rule: str
    prompts: int
    better: int
    worse: int
    samples: tuple[Sample, ...]


def samples_of(view: View) -> Samples | None:
    """Samples of the selected point, or of the first checked one; None without per-prompt held-out rows."""
    dense = view.held_out_dense
    point = view.held_out_of(view.selected) or next(iter(view.held_out), None)
    if dense is None or point is None or not dense.prompts or not point.prompts:
        return None
    by_score = _scores_are_prompts(dense) and _scores_are_prompts(point)
    figure = view.metric_name if by_score else "accept length"
    sparse_rows = {row["id"]: row for row in point.prompts}
    pairs = [(row, sparse_rows[row["id"]]) for row in dense.prompts if row["id"] in sparse_rows]
    changes = [_change(a, b, by_score) for a, b in pairs]
    order = sorted(range(len(pairs)), key=lambda i: (changes[i], str(pairs[i][0]["id"])))
    chosen = {
        f"Largest gain in {figure}": order[-1] if changes[order[-1]] > 0 else None,
        f"Largest loss in {figure}": order[0] if changes[order[0]] < 0 else None,
        "Median prompt": order[(len(order) - 1) // 2],
    }
    taken: dict[int, str] = {}
    for title, index in chosen.items():
        if index is not None:
            taken.setdefault(index, title)
    return Samples(
        str(point.skip),
        by_score,
        f"All {len(pairs)} held-out prompts are ordered by the change in {figure} of their answer (ties by id); "
        "shown are the largest gain and the largest loss, if there is one, and the middle of that order.",
        len(pairs),
        sum(change > 0 for change in changes),
        sum(change < 0 for change in changes),
        tuple(_sample(title, *pairs[index], changes[index], by_score) for index, title in taken.items()),
    )


def compare_words(dense: str, sparse: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts cut into shared and own runs; joined again, the pieces give the texts."""
    left, right = _WORD.findall(dense), _WORD.findall(sparse)
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        own: Kind = "same" if kind == "equal" else "only"
        for side, words in ((sides[0], left[a0:a1]), (sides[1], right[b0:b1])):
            if words:
                side.append(Piece(own, "".join(words)))
    return tuple(sides[0]), tuple(sides[1])


def _sample(
    title: str, dense: Mapping[str, Any], sparse: Mapping[str, Any], change: float, by_score: bool
) -> Sample:
    left, right = compare_words(_head(dense["text"]), _head(sparse["text"]))
    return Sample(
        title, str(dense["id"]), change, _side(dense, left, by_score), _side(sparse, right, by_score)
    )


def _side(row: Mapping[str, Any], pieces: tuple[Piece, ...], by_score: bool) -> Side:
    return Side(pieces, _accept_length(row), row["stats"][0] if by_score else None, len(row["text"].split()))


def _head(text: str) -> str:
    """The first words; whitespace between them stays."""
    return "".join(_WORD.findall(text)[: 2 * MOST_WORDS])


def _change(dense: Mapping[str, Any], sparse: Mapping[str, Any], by_score: bool) -> float:
    if by_score:
        return float(sparse["stats"][0] - dense["stats"][0])
    return (_accept_length(sparse) or 0.0) - (_accept_length(dense) or 0.0)


def _accept_length(row: Mapping[str, Any]) -> float | None:
    return row["emitted"] / row["steps"] if row["steps"] else None


def _scores_are_prompts(part: HeldOut) -> bool:
    """One statistic a prompt whose mean is the reported metric: only then is it the prompt's own score."""
    if any(len(row["stats"]) != 1 for row in part.prompts):
        return False
    mean = sum(row["stats"][0] for row in part.prompts) / len(part.prompts)
    return math.isclose(mean, part.metric, rel_tol=1e-6, abs_tol=1e-9)
