from __future__ import annotations

import numpy as np
import pytest

from skipmap.calibration.items import Item
from skipmap.metrics.base import Metric
from skipmap.metrics.squad import ExactMatch, TokenF1, normalised_tokens
from skipmap.metrics.trivial import corpus_figure


def _item(*references: str) -> Item:
    return Item("1", ("prompt",), (references,))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The  Cat,\nsat!", ("cat", "sat")),
        ("an apple a day", ("apple", "day")),
        ("theatre Another", ("theatre", "another")),
        ("U.S.A.", ("usa",)),
        ("the", ()),
        ("Zürich", ("zürich",)),
    ],
)
def test_normalisation(text: str, tokens: tuple[str, ...]) -> None:
    assert normalised_tokens(text) == tokens


@pytest.mark.parametrize(
    ("answer", "references", "f1", "exact"),
    [
        ("The Eiffel Tower!", ("eiffel tower",), 1.0, 1.0),
        ("tower of Eiffel", ("Eiffel Tower",), 2 * 2 / 5, 0.0),
        ("in Paris", ("London", "Paris, France", "paris"), 2 / 3, 0.0),
        ("Rome", ("London", "rome"), 1.0, 1.0),
        ("yes yes yes", ("yes yes",), 4 / 5, 0.0),
        ("yes", ("no",), 0.0, 0.0),
        ("", ("no",), 0.0, 0.0),
        ("a", ("the",), 1.0, 1.0),
        ("word", ("the",), 0.0, 0.0),
    ],
)
def test_best_over_references(answer: str, references: tuple[str, ...], f1: float, exact: float) -> None:
    item = _item(*references)
    assert TokenF1().stats(answer, item) == pytest.approx((f1,))
    assert ExactMatch().stats(answer, item) == (exact,)


def test_corpus_is_the_mean() -> None:
    items = [_item("red house"), _item("blue"), _item("green")]
    assert corpus_figure(TokenF1(), ["red", "blue", "grey"], items) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert corpus_figure(ExactMatch(), ["red", "blue", "grey"], items) == pytest.approx(1 / 3)
    assert TokenF1().corpus(np.zeros(1), 0) == 0.0


def test_contract() -> None:
    assert isinstance(TokenF1(), Metric)
    assert isinstance(ExactMatch(), Metric)
    assert TokenF1().signature != ExactMatch().signature
