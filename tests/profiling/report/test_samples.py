from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.profiling.report import render_report
from skipmap.profiling.report.samples import MOST_WORDS, Samples, compare_words, samples_of
from skipmap.profiling.report.view import View

Make = Callable[..., Any]


@pytest.fixture
def chosen(result: Make, held_out: Make, row: Make) -> Callable[..., Samples]:
    def choose(changes: Sequence[float], *, components: int = 1, accept: Sequence[int] = ()) -> Samples:
        more = accept or [0] * len(changes)
        rest = [0.0] * (components - 1)
        dense = [row(f"p{i}", 10, 20, [0.5, *rest]) for i in range(len(changes))]
        sparse = [row(f"p{i}", 10, 20 + more[i], [0.5 + c, *rest]) for i, c in enumerate(changes)]
        document = result({(1,): (2.0, 0.5)}, selected=(1,), held_out=held_out((1,), dense, sparse))
        found = samples_of(View(document, "r"))
        assert found is not None
        return found

    return choose


def _ids(found: Samples) -> dict[str, str]:
    return {sample.title.split()[0] + " " + sample.title.split()[1]: sample.id for sample in found.samples}


def test_largest_gain_loss_and_median_by_score(chosen: Make) -> None:
    found = chosen([0.1, -0.3, 0.0, 0.4, -0.1], accept=[9, 0, 0, 0, 5])
    assert found.by_score
    assert _ids(found) == {"Largest gain": "p3", "Largest loss": "p1", "Median prompt": "p2"}
    assert (found.better, found.worse, found.prompts) == (2, 2, 5)
    assert found.samples[0].sparse.score == pytest.approx(0.9)


def test_corpus_metrics_rank_by_accept_length_and_show_no_score(chosen: Make) -> None:
    found = chosen([0.4, 0.0, -0.4], components=10, accept=[-5, 3, 8])
    assert not found.by_score
    assert _ids(found) == {"Largest gain": "p2", "Largest loss": "p0", "Median prompt": "p1"}
    assert all(side.score is None for sample in found.samples for side in (sample.dense, sample.sparse))


def test_gain_or_loss_is_shown_only_if_there_is_one(chosen: Make) -> None:
    assert _ids(chosen([0.0, 0.0, 0.0])) == {"Median prompt": "p1"}
    assert _ids(chosen([-0.1, -0.2, -0.3])) == {"Largest loss": "p2", "Median prompt": "p1"}


def test_one_component_that_is_no_score_is_not_shown_as_one(result: Make, held_out: Make, row: Make) -> None:
    part = held_out((1,), [row("p", 10, 20, [3.0])], [row("p", 10, 25, [4.0])])
    for figures in (part["dense"], part["points"][0]):
        figures["metric"] = 0.5
    found = samples_of(View(result({(1,): (2.0, 0.5)}, selected=(1,), held_out=part), "r"))
    assert found is not None
    assert not found.by_score


def test_rule_and_marked_words_are_on_the_page(result: Make, held_out: Make, row: Make, page: Make) -> None:
    dense = [row("a", 10, 20, [0.1], "the cat sat"), row("b", 0, 0, [0.1], "")]
    sparse = [row("a", 10, 20, [0.5], "the dog sat"), row("b", 0, 0, [0.1], "word " * (MOST_WORDS + 7))]
    document = result({(1,): (2.0, 0.5)}, selected=(1,), held_out=held_out((1,), dense, sparse))
    found = page(render_report([document]))
    assert "All 2 held-out prompts are ordered by the change in f1" in found.text
    assert "cat" in [text for _, text in found.all("del")]
    assert "dog" in [text for _, text in found.all("ins")]
    assert "(empty answer)" in found.text
    assert f"first {MOST_WORDS} of {MOST_WORDS + 7} words" in found.text
    assert "no verification step" in found.text


_TEXTS = st.text(alphabet=st.sampled_from("ab \n"), max_size=40)


@given(_TEXTS, _TEXTS)
def test_pieces_rebuild_both_texts_and_shared_ones_agree(dense: str, sparse: str) -> None:
    left, right = compare_words(dense, sparse)
    assert "".join(piece.text for piece in left) == dense
    assert "".join(piece.text for piece in right) == sparse
    shared = ["".join(piece.text for piece in side if piece.kind == "same") for side in (left, right)]
    assert shared[0] == shared[1]


@given(_TEXTS)
def test_equal_texts_have_no_own_words(text: str) -> None:
    assert all(piece.kind == "same" for side in compare_words(text, text) for piece in side)
