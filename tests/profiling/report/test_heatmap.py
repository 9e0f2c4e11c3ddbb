from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skipmap.profiling.report import render_report
from skipmap.profiling.report.heatmap import heat_map, tone
from skipmap.profiling.report.view import View

Make = Callable[..., Any]
SCORES = {(0,): (1.0, 0.02), (1,): (2.1, 0.41), (2,): (1.89, 0.38), (3,): (1.9, 0.379)}


@pytest.mark.parametrize(
    ("change", "expected"),
    [(0.0, "n"), (0.0099, "n"), (-0.01, "l1"), (0.05, "g2"), (-0.0999, "l2"), (0.3, "g4"), (-1.0, "l5"), (9, "g5")],
)  # fmt: skip
def test_tones_are_symmetric_classes(change: float, expected: str) -> None:
    assert tone(change) == expected
    assert tone(-change) == expected.translate(str.maketrans("gl", "lg"))


def test_cells_are_hatched_by_their_own_floor(result: Make, page: Make) -> None:
    document = result(SCORES, pool=(1, 2))
    found = heat_map(View(document, "r"))
    assert found is not None
    assert [(c.accept.below_floor, c.metric.below_floor) for c in found.columns] == [
        (a < 1.9, m < 0.38) for a, m in SCORES.values()
    ]
    hatched = [attrs for attrs, _ in page(render_report([document])).all("rect") if "fill" in attrs]
    # Once in the wide and once in the narrow drawing.
    assert len(hatched) == 2 * sum((a < 1.9) + (m < 0.38) for a, m in SCORES.values())
    assert [c.accept.text for c in found.columns] == ["\u221250", "+5", "\u22126", "\u22125"]


def test_pool_cut_blocks_and_selected_blocks_are_marked(result: Make, page: Make) -> None:
    document = result(SCORES, pool=(1, 2), selected=(1,), front=[(1,)])
    document["budget"]["pool_cut"] = [3]
    found = heat_map(View(document, "r"))
    assert found is not None
    assert [c.pool for c in found.columns] == ["out", "pool", "pool", "cut"]
    assert [c.selected for c in found.columns] == [False, True, False, False]
    assert "passes a floor, cut by max_pool" in page(render_report([document])).text


@pytest.mark.parametrize(
    ("strategy", "there"), [("tss", True), ("beam", True), ("greedy", False), ("random", False)]
)
def test_only_searches_with_a_pool_show_one(result: Make, page: Make, strategy: str, there: bool) -> None:
    document = result(SCORES, pool=(0, 1, 2, 3), selected=(1,), front=[(1,)])
    document["spec"]["search"]["strategy"] = strategy
    found = heat_map(View(document, "r"))
    assert found is not None
    assert {c.pool for c in found.columns} == ({"pool"} if there else {"out"})
    shown = page(render_report([document]))
    assert bool(shown.all("circle", "pool")) is ("in the pool" in shown.text) is there
    assert ("Pool" in [text for _, text in shown.all("th")]) is there
    # The frame of the selected block ends with the last row.
    frames = {attrs["height"] for attrs, _ in shown.all("rect", "chosen-frame")} - {"14"}
    assert frames == {str(layout.band_height) for layout in found.layouts}


def test_hybrid_targets_get_a_row_of_block_types(result: Make, page: Make) -> None:
    document = result(SCORES)
    assert not page(render_report([document])).all("text", "kind")
    document["target"]["block_types"] = [
        "sliding_attention",
        "sliding_attention",
        "full_attention",
        "sliding_attention",
    ]
    found = page(render_report([document]))
    kinds = [text for _, text in found.all("text", "kind")][:4]
    assert [text[0] for text in kinds] == ["S", "S", "F", "S"]
    assert "block 2: full" in kinds[2]
    assert "S sliding attention" in found.text.replace("Ssliding", "S sliding")


def test_blocks_that_were_not_evaluated_stay_empty(result: Make) -> None:
    found = heat_map(View(result({(1,): (2.0, 0.4)}), "r"))
    assert found is not None
    assert found.missing == 3
    assert [c.accept.tone for c in found.columns] == ["missing", "n", "missing", "missing"]
    assert heat_map(View(result({(0, 1): (2.0, 0.4)}), "r")) is None


def test_change_against_zero_is_absolute(result: Make) -> None:
    found = heat_map(View(result({(0,): (2.0, 0.3)}, dense=(2.0, 0.0)), "r"))
    assert found is not None
    assert "absolute" in found.metric_unit
    assert found.columns[0].metric.text == "+0.30"


@pytest.mark.parametrize("num_layers", [4, 31, 33, 80])
def test_every_block_is_drawn_once_at_each_width(result: Make, num_layers: int) -> None:
    found = heat_map(View(result({(0,): (2.0, 0.4)}, num_layers=num_layers), "r"))
    assert found is not None
    for layout in found.layouts:
        assert [c.block for band in layout.bands for c in band.columns] == list(range(num_layers))
        assert all(band.step * len(band.columns) <= 100.01 for band in layout.bands)
