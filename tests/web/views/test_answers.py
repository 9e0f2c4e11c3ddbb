from __future__ import annotations

import pytest

from skipmap.calibration.items import Item
from web.views.answers import LONG_CHARACTERS, PROMPTS_A_PAGE, Answers, answer_page


def record(name, text="an answer", score=0.5, steps=10, emitted=20, stats=None):
    return {
        "id": name,
        "text": text,
        "stats": [score] if stats is None else stats,
        "steps": steps,
        "emitted": emitted,
    }


def answers(dense, sparse, dense_metric=0.5, sparse_metric=0.5):
    return Answers("calibration", dense, sparse, dense_metric, sparse_metric)


def many(number, differing):
    dense = [record(f"p{index}") for index in range(number)]
    sparse = [
        record(f"p{index}", "another" if index in differing else "an answer") for index in range(number)
    ]
    return answers(dense, sparse)


def test_pages_go_on_where_the_one_before_ends():
    found = many(45, set())
    pages = [answer_page(found, None, number, differing_only=False) for number in (1, 2, 3)]
    assert [len(page.pairs) for page in pages] == [PROMPTS_A_PAGE, PROMPTS_A_PAGE, 5]
    assert [pair.id for page in pages for pair in page.pairs] == [f"p{index}" for index in range(45)]
    assert {(page.pages, page.found, page.total, page.differing) for page in pages} == {(3, 45, 45, 0)}


def test_a_page_beyond_the_last_is_the_last():
    page = answer_page(many(25, set()), None, 99, differing_only=False)
    assert (page.number, page.pages, page.pairs[-1].id) == (2, 2, "p24")


def test_only_where_answers_differ():
    page = answer_page(many(45, {3, 40}), None, 1, differing_only=True)
    assert [pair.id for pair in page.pairs] == ["p3", "p40"]
    assert (page.found, page.total, page.differing, page.pages) == (2, 45, 2, 1)
    assert all(pair.differs for pair in page.pairs)


def test_nothing_differs():
    page = answer_page(many(5, set()), None, 1, differing_only=True)
    assert (page.pairs, page.number, page.pages, page.differing) == ((), 1, 1, 0)


def test_records_are_paired_by_id_whatever_their_order():
    dense = [record("a", "one"), record("b", "two")]
    sparse = [record("b", "two"), record("a", "three"), record("c", "four")]
    page = answer_page(answers(dense, sparse), None, 1, differing_only=False)
    assert [(pair.id, pair.differs) for pair in page.pairs] == [("a", True), ("b", False)]


def test_accept_length_is_of_the_prompt_and_none_without_a_step():
    page = answer_page(
        answers([record("a", steps=8, emitted=20)], [record("a", steps=0, emitted=0)]),
        None,
        1,
        differing_only=False,
    )
    (pair,) = page.pairs
    assert (pair.dense.accept_length, pair.sparse.accept_length) == (2.5, None)


@pytest.mark.parametrize(
    ("dense", "metric", "scored"),
    [
        # One statistic whose mean is the metric.
        ([record("a", score=0.2), record("b", score=0.6)], 0.4, True),
        # A sum that is no mean of prompts, as BLEU's.
        ([record("a", stats=[3, 4, 5]), record("b", stats=[1, 2, 3])], 0.4, False),
        # One statistic that means something else.
        ([record("a", score=3), record("b", score=5)], 0.4, False),
    ],
)
def test_scores_are_shown_where_the_metric_is_their_mean(dense, metric, scored):
    page = answer_page(answers(dense, dense, metric, metric), None, 1, differing_only=False)
    assert page.has_scores == scored
    expected = [row["stats"][0] if scored else None for row in dense]
    assert [pair.dense.score for pair in page.pairs] == expected


def test_prompts_and_references_come_with_the_pair():
    items = {"a": Item("a", ("Say hello",), (("hello", "hi"),))}
    page = answer_page(
        answers([record("a"), record("b")], [record("a"), record("b")]), items, 1, differing_only=False
    )
    known, unknown = page.pairs
    assert known.item is not None
    assert (known.item.turns, known.item.references) == (("Say hello",), ("hello", "hi"))
    assert unknown.item is None


def test_long_answers_are_folded():
    long = "x" * (LONG_CHARACTERS + 1)
    page = answer_page(answers([record("a", long)], [record("a", "x")]), None, 1, differing_only=False)
    assert (page.pairs[0].dense.is_long, page.pairs[0].sparse.is_long) == (True, False)
