from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric
from skipmap.metrics.bleu import Bleu
from skipmap.metrics.trivial import corpus_figure

REFERENCES = [
    ("The cat sat on the mat.", "A cat was sitting on the mat, quietly."),
    ("It rains in the north of the country today.", "Today it is raining in the north."),
    ("Prices rose by 3.5% in May, the office said.", "The office said that prices went up 3.5% in May."),
]
ANSWERS = [
    "A cat sat on the mat.",
    "Today it rains in the north of the land.",
    "The office said prices rose 3.5%.",
]


def _items(references: Sequence[tuple[str, ...]]) -> list[Item]:
    return [Item(str(n), ("prompt",), (refs,)) for n, refs in enumerate(references)]


def _library(answers: list[str], references: Sequence[tuple[str, ...]]) -> float:
    streams = [list(stream) for stream in zip(*references, strict=True)]
    return float(sacrebleu.corpus_bleu(answers, streams).score) / 100.0


@pytest.mark.parametrize(
    "answers",
    [
        ANSWERS,
        ["", ANSWERS[1], ANSWERS[2]],
        ["", "", ""],
        ["mat", "rains", "May"],
        ["Nothing shared whatsoever here", "zzz", ANSWERS[2]],
        [refs[1] for refs in REFERENCES],
    ],
)
def test_summed_statistics_give_the_library_figure(answers: list[str]) -> None:
    assert corpus_figure(Bleu(), answers, _items(REFERENCES)) == _library(answers, REFERENCES)


def test_one_reference_gives_the_library_figure() -> None:
    single = [refs[:1] for refs in REFERENCES]
    figure = corpus_figure(Bleu(), ANSWERS, _items(single))
    assert figure == _library(ANSWERS, single)
    assert 0.2 < figure < 1.0


_TEXT = st.lists(st.sampled_from(["the", "a", "cat", "sat", ",", ".", "on", "3.5%", "mat"]), max_size=12).map(
    " ".join
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(_TEXT, _TEXT.filter(bool), _TEXT), min_size=1, max_size=6))
def test_any_corpus_gives_the_library_figure(rows: list[tuple[str, str, str]]) -> None:
    references = [(first, second) for _, first, second in rows]
    answers = [answer for answer, _, _ in rows]
    assert corpus_figure(Bleu(), answers, _items(references)) == _library(answers, references)


def test_items_may_differ_in_their_number_of_references() -> None:
    mixed = [REFERENCES[0], REFERENCES[1][:1]]
    # None marks a missing reference for the library.
    streams: Any = [[refs[0] for refs in mixed], [REFERENCES[0][1], None]]
    library = sacrebleu.BLEU().corpus_score(ANSWERS[:2], streams).score / 100.0
    assert corpus_figure(Bleu(), ANSWERS[:2], _items(mixed)) == library


def test_statistics_by_hand() -> None:
    item = Item("1", ("p",), (("a b c d e f", "a b d"),))
    # Four words; references have six and three, so three is closest. "b c" is in the first reference only.
    assert Bleu().stats("a b c x", item) == (3, 2, 1, 0, 4, 3, 2, 1, 4, 3)


def test_no_prompts_and_no_match_are_zero() -> None:
    assert Bleu().corpus(np.zeros(10), 0) == 0.0
    assert corpus_figure(Bleu(), ["x"], _items([("a b c d",)])) == 0.0


def test_signature_is_sacrebleus_own() -> None:
    library = sacrebleu.BLEU()
    library.corpus_score(["a"], [["a"]])
    assert Bleu().signature == str(library.get_signature()).replace("nrefs:1", "nrefs:var")
    assert "smooth:exp" in Bleu().signature
    assert isinstance(Bleu(), Metric)


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        corpus_figure(Bleu(), ["a ."] * 150, _items([("a b .",)] * 150))
    assert not caplog.records


def test_item_without_reference_is_refused() -> None:
    with pytest.raises(InvalidInput, match="item 'x' has none"):
        Bleu().stats("a", Item("x", ("p",), ((),)))
