from __future__ import annotations

import pytest

from skipmap.calibration.items import Item
from skipmap.metrics.registry import get_metric, metric_names
from skipmap.metrics.usable import usable

WITH_REFERENCE = Item("1", ("p", "q"), (("about 5pi",), ()))
WITH_CHOICES = Item("2", ("p",), choices=("x", "y"), answer=1)


@pytest.mark.parametrize("name", ["bleu", "rouge1", "rouge2", "rougeL", "f1", "exact_match"])
def test_reference_metrics(name: str) -> None:
    metric = get_metric(name)
    assert usable(metric, WITH_REFERENCE) is None
    for item in (WITH_CHOICES, Item("3", ("p",)), Item("4", ("p",), (("", " \n"),))):
        assert usable(metric, item) == "no reference"
    assert usable(metric, Item("5", ("p",), (("", "word"),))) is None


def test_accuracy() -> None:
    metric = get_metric("accuracy")
    assert usable(metric, WITH_CHOICES) is None
    assert usable(metric, WITH_REFERENCE) == "no choices"
    for answer in (None, 2, -1):
        item = Item("3", ("p",), choices=("x", "y"), answer=answer)
        assert usable(metric, item) == "no right answer among the choices"


def test_numeric() -> None:
    metric = get_metric("numeric")
    assert usable(metric, WITH_CHOICES) == "no reference"
    assert usable(metric, WITH_REFERENCE) == "reference holds no number"
    assert usable(metric, Item("3", ("p",), (("none", "#### 72"),))) is None
    # Only the last turn with a reference counts.
    assert usable(metric, Item("4", ("p", "q"), (("3",), ("5pi",)))) == "reference holds no number"


@pytest.mark.parametrize("name", metric_names())
@pytest.mark.parametrize("item", [WITH_CHOICES, WITH_REFERENCE])
def test_every_usable_item_is_scored_the_same_length(name: str, item: Item) -> None:
    metric = get_metric(name)
    if usable(metric, item) is None:
        stats = [metric.stats(text, item) for text in ("", "5", "some more words 5")]
        assert {len(row) for row in stats} == {10 if name == "bleu" else 1}
