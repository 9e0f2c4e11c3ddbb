from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

from skipmap.calibration.items import Item
from skipmap.metrics.base import Metric
from skipmap.metrics.registry import get_metric
from skipmap.metrics.rouge import Rouge1, Rouge2, RougeL
from skipmap.metrics.trivial import corpus_figure

REFERENCES = [
    ("The runners were running quickly through the cities.", "A runner ran through a city."),
    ("Prices went up in May, said the office.", "The office reported rising prices."),
    ("", "Only the second one has words"),
]
ANSWERS = [
    "Runners run through cities, quickly",
    "In May the office reported that prices rose",
    "the second word",
]
VARIANTS = [Rouge1, Rouge2, RougeL]


def _items() -> list[Item]:
    return [Item(str(n), ("prompt",), (refs,)) for n, refs in enumerate(REFERENCES)]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "answers", [ANSWERS, ["", ANSWERS[1], ""], ["zzz"] * 3, [refs[1] for refs in REFERENCES]]
)
def test_figure_is_the_mean_of_the_librarys_best_f(variant: type[Rouge1], answers: list[str]) -> None:
    library = RougeScorer([variant.name], use_stemmer=True)
    best = [
        max(library.score(reference, answer)[variant.name].fmeasure for reference in refs)
        for answer, refs in zip(answers, REFERENCES, strict=True)
    ]
    metric = variant()
    assert [metric.stats(answer, item) for answer, item in zip(answers, _items(), strict=True)] == [
        (f,) for f in best
    ]
    assert corpus_figure(metric, answers, _items()) == pytest.approx(np.mean(best), abs=1e-12)


def test_by_hand() -> None:
    item = Item("1", ("p",), (("the cat sat on the mat",),))
    answer = "the cat on the mat sat"
    # All six words; pairs "the cat", "on the", "the mat" of five; longest subsequence "the cat on the mat".
    figures = [metric().stats(answer, item)[0] for metric in VARIANTS]
    assert figures == pytest.approx([1.0, 3 / 5, 5 / 6])


def test_stemmer_joins_word_forms() -> None:
    assert Rouge1().stats("runner running", Item("1", ("p",), (("runners runs",),)))[0] == 1.0


def test_one_instance_serves_many_threads() -> None:
    metric = get_metric("rougeL")
    jobs = [(answer, item) for answer in ANSWERS for item in _items()] * 20
    alone = [metric.stats(*job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda job: metric.stats(*job), jobs)) == alone


def test_contract() -> None:
    assert all(isinstance(metric(), Metric) for metric in VARIANTS)
    assert (
        RougeL().signature
        == f"rougeL|f-measure|stemmer:porter|refs:best|rouge_score:{version('rouge_score')}"
    )
    assert RougeL().corpus(np.zeros(1), 0) == 0.0
