from __future__ import annotations

import time

import numpy as np
import pytest

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric
from skipmap.metrics.choice import Accuracy, chosen
from skipmap.metrics.trivial import corpus_figure

CITIES = ("Lyon", "Paris", "Rome", "Both Lyon and Paris")


@pytest.mark.parametrize(
    "text",
    [
        "B",
        " b\n",
        "B.",
        "(B)",
        "(b)",
        "[B]",
        "**B**",
        "_B_",
        '"B"',
        "B\r\n",
        "B)",
        "b) the second",
        "B. Paris",
        "B: Paris",
        "B - Paris",
        "(B) Paris",
        "**B.** Paris",
        "**B** because it is the capital",
        "B because it is the capital",
        "Answer: B",
        "Answer:B",
        "ANSWER: b",
        "**Answer:** B",
        "Answer:\n\nB",
        "A: B",
        "The answer is B",
        "The answer is b.",
        "The answer is: **B**",
        "The correct answer is (B)",
        "The correct answer is option B, Paris.",
        "The best answer to this question is B since it is the capital.",
        "**The answer is (B) Paris.**",
        "The answer would be B.",
        "Option B is correct.",
        "I would choose (B).",
        "B is the correct answer.",
        r"$\boxed{B}$",
        r"The answer is \boxed{\text{B}}.",
        "B\n\nQuestion: another one?\nAnswer: C",
        "A. Lyon\nB. Paris\nC. Rome\nAnswer: B",
        "A is wrong. B is right.",
    ],
)
def test_letter_forms(text: str) -> None:
    assert chosen(text, CITIES) == 1


@pytest.mark.parametrize(
    "text", ["A", "a", "A.", "(A)", "A) Lyon", "A Lyon", "A is correct", "Answer: A", "A because"]
)
def test_letter_a(text: str) -> None:
    assert chosen(text, CITIES) == 0


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("A star is what the sun is, in Rome", 2),
        ("A Paris suburb", 1),
        ("A star is born", None),
        ("a star", None),
        ("The answer is A star", None),
        ("The answer is a city", None),
        ("A-levels are hard", None),
        ("A* search", None),
        ("As in Rome", 2),
        ("A: Rome", 2),
        ("I think it is Paris", 1),
    ],
)
def test_article_is_no_letter(text: str, index: int | None) -> None:
    assert chosen(text, CITIES) == index


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("It must be paris.", 1),
        ("PARIS", 1),
        ("both  Lyon and\nParis", 3),
        ("Parisian", None),
        ("Paris or Rome", None),
        ("Both Lyon and Paris, and Paris", None),
        ("Berlin", None),
        ("D-Day", None),
        ("C++", None),
        ("B.C. 44", None),
        ("E", None),
        ("", None),
        (" \n", None),
    ],
)
def test_text_of_one_choice(text: str, index: int | None) -> None:
    assert chosen(text, CITIES) == index


@pytest.mark.parametrize(
    "text",
    [
        "A or B",
        "A/B",
        "B, C",
        "A and B",
        "The answer is A or B",
        "The answer is A. The answer is C.",
        "Choose A, B, C or D.",
        "A. Lyon\nB. Paris\nC. Rome",
        "The answer is not B",
        "Option A or option B",
    ],
)
def test_unclear_answers_name_nothing(text: str) -> None:
    assert chosen(text, CITIES) is None


def test_choice_that_is_made_of_letters() -> None:
    assert chosen("The answer is A and B.", ("north", "south", "A and B", "east")) == 2
    assert chosen("both A and B", ("north", "south", "Both A and B", "east")) == 2


@pytest.mark.parametrize(
    ("text", "index"),
    [("it is 4.", 1), ("so -4", 0), ("about 0.4", 3), ("14", 2), ("40", None), ("4,000", None)],
)
def test_numbers_match_whole(text: str, index: int | None) -> None:
    assert chosen(text, ("-4", "4", "14", "0.4")) == index


def test_equal_choices_stay_unclear() -> None:
    assert chosen("yes it is", ("yes", "yes", "no")) is None
    assert chosen("york", ("New York", "York")) == 1
    assert chosen("new york", ("New York", "York")) == 0


def test_letters_end_with_the_choices() -> None:
    assert chosen("E", tuple("vwxyz")) == 4
    assert chosen("E", tuple("wxyz")) is None


def test_long_noise_is_read_fast() -> None:
    start = time.perf_counter()
    for noise in (" ", "*", "\n", "(", "answer ", "A ", "B, "):
        chosen("answer:" + noise * 20_000 + "x", CITIES)
    assert time.perf_counter() - start < 5.0


def test_statistics_corpus_and_baseline() -> None:
    items = [Item(str(n), ("p",), choices=CITIES, answer=answer) for n, answer in enumerate([1, 1, 2, 0])]
    metric = Accuracy()
    assert isinstance(metric, Metric)
    assert metric.stats("(B)", items[0]) == (1.0,)
    assert metric.stats("no idea", items[0]) == (0.0,)
    assert corpus_figure(metric, ["B", "C", "C", ""], items) == 0.5
    assert metric.baseline(items) == 0.5
    assert metric.baseline([]) == metric.corpus(np.zeros(1), 0) == 0.0


def test_item_without_answer_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no right answer among the choices"):
        Accuracy().stats("A", Item("x", ("p",), choices=CITIES))
