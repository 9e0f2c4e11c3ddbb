from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric
from skipmap.metrics.numeric import Numeric, last_number, reference_number
from skipmap.metrics.trivial import corpus_figure


def _item(*references: str) -> Item:
    return Item("x", ("prompt",), (references,))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", 72),
        ("She pays 72.", 72),
        ("72.Then", 72),
        ("is...72.", 72),
        ("3 apples and 4 pears make 7 fruits", 7),
        ("**72**", 72),
        ("_72_", 72),
        (r"\boxed{72}", 72),
        ("<<64*5=320>>320 emails", 320),
        ("1,234,567", 1234567),
        ("$1,234.50", 1234.5),
        (r"\$72", 72),
        ("1{,}000", 1000),
        ("5€", 5),
        ("45%", 45),
        (r"45\%", 45),
        ("3.14", 3.14),
        ("It is 3.5.", 3.5),
        (".5", 0.5),
        ("1e5", 100000),
        ("2.5e-3", 0.0025),
        ("-3", -3),
        ("\u22123", -3),
        ("-$5", -5),
        ("$-5", -5),
        ("x=-2", -2),
        ("10-3", 3),
        ("5-10", 10),
        ("$300 \u2013 $220", 220),
        ("3/4", 0.75),
        ("3 / 4", 0.75),
        ("-1/2", -0.5),
        ("2 1/4 cups", 2.25),
        ("20 30/5", 6),
        (r"\frac{3}{4}", 0.75),
        ("72kg", 72),
        ("60 km/h", 60),
        ("60km/h.", 60),
        ("1, 2, 3", 3),
        ("1,2,3", 3),
        ("(-1, 1)", 1),
    ],
)
def test_readable_numbers(text: str, value: float) -> None:
    assert last_number(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "H2O",
        "5pi",
        "5 pi",
        "2\u03c0",
        "pi/4",
        "10:30",
        "3:4",
        "1.2.3",
        "12/25/2020",
        "2^10",
        "x^{2}",
        "5\u00b2",
        "\u221a2",
        r"5\sqrt{2}",
        "4i",
        "3/0",
        "9" * 400,
        "first 5, then 25pi",
    ],
)
def test_unreadable_numbers(text: str) -> None:
    assert last_number(text) is None


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "It is {:,}.", "= {} apples", "${:,}!"])
)
def test_integers_survive_every_form(value: int, form: str) -> None:
    assert last_number("First 17, then " + form.format(value)) == value


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("12+6=<<12+6=18>>18 miles.\n#### 18", 18),
        ("#### 1,000", 1000),
        ("#### -3", -3),
        ("Area is 3", 3),
        ("12000", 12000),
        ("so 8 of them\n#### five", None),
        ("5pi", None),
        ("so 8\n#### 5pi", None),
    ],
)
def test_reference_number(reference: str, value: float | None) -> None:
    assert reference_number(reference) == value


@pytest.mark.parametrize(
    ("answer", "references", "right"),
    [
        ("The total is $1,200.00.", ("#### 1200",), 1.0),
        ("0.333333333", ("1/3",), 1.0),
        ("0.3333", ("1/3",), 0.0),
        ("1000000.5", ("1000000",), 1.0),
        ("1000002", ("1000000",), 0.0),
        ("-5", ("5",), 0.0),
        ("7", ("five", "7"), 1.0),
        ("0", ("0",), 1.0),
        ("0.0000001", ("0",), 0.0),
        ("no number", ("0",), 0.0),
        ("3 or 4", ("3",), 0.0),
    ],
)
def test_answers(answer: str, references: tuple[str, ...], right: float) -> None:
    assert Numeric().stats(answer, _item(*references)) == (right,)


def test_long_noise_is_read_fast() -> None:
    start = time.perf_counter()
    for noise in ("9", "1,", "1/", "1 ", "1.", " ", "-", "$", "^", "5pi ", "a1", r"\frac{"):
        last_number(noise * 20_000)
    assert time.perf_counter() - start < 5.0


def test_corpus_and_baseline() -> None:
    metric = Numeric()
    items = [_item("#### 4"), _item("4.0"), _item("#### 7"), _item("8", "4")]
    assert isinstance(metric, Metric)
    assert corpus_figure(metric, ["4", "5", "is 7", ""], items) == 0.5
    assert metric.baseline(items) == 0.75
    assert metric.baseline([_item("1"), _item("2")]) == 0.5
    assert metric.baseline([]) == metric.corpus(np.zeros(1), 0) == 0.0


def test_item_without_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="its reference holds no number"):
        Numeric().stats("5", _item("5pi"))


def test_every_gsm8k_answer_of_spec_bench_is_read(extra_data: Path) -> None:
    lines = (extra_data / "spec_bench" / "question.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["category"] == "math_reasoning"]
    assert len(rows) == 80
    for row in rows:
        (reference,) = row["reference"]
        assert reference_number(reference) == float(reference.rsplit("####", 1)[1].replace(",", ""))
